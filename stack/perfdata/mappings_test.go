package perfdata

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/stack"
)

// TestOverlay: what is seen of mappings is what painting them one after the other gives.
func TestOverlay(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	type byteOf struct {
		name string
		off  uint64
	}
	var o overlay
	for round := range 500 {
		var painted [64]byteOf
		var list []stack.Module
		for range 1 + rnd.IntN(4) {
			var added []stack.Module
			for range rnd.IntN(8) {
				start := rnd.Uint64N(63)
				m := stack.Module{Start: start, End: start + 1 + rnd.Uint64N(64-start), Offset: rnd.Uint64N(100), Name: fmt.Sprint(rnd.IntN(1000))}
				for a := m.Start; a < m.End && a < 64; a++ {
					painted[a] = byteOf{m.Name, m.Offset + a - m.Start}
				}
				m.End = min(m.End, 64)
				added = append(added, m)
			}
			list = append([]stack.Module(nil), o.put(list, added)...)
		}
		var got [64]byteOf
		last := uint64(0)
		for _, m := range list {
			if m.Start < last || m.End <= m.Start {
				t.Fatalf("round %d: %+v", round, list)
			}
			last = m.End
			for a := m.Start; a < m.End; a++ {
				got[a] = byteOf{m.Name, m.Offset + a - m.Start}
			}
		}
		if got != painted {
			t.Fatalf("round %d: %+v\nwant %+v", round, got, painted)
		}
	}
}

// samples calls f with each sample of a file.
func samples(t *testing.T, p *elfbuild.PerfData, f func(*Sample)) error {
	t.Helper()
	image := p.Bytes()
	file, err := New(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	all, failed := file.Samples()
	for s := range all {
		f(s)
	}
	return failed()
}

// TestFork: a child has what its parent had mapped when it was forked, until it executes a
// program, and each what it maps itself.
func TestFork(t *testing.T) {
	var p elfbuild.PerfData
	p.Comm(1, "parent")
	p.Mmap(1, 0x1000, 0x1000, "//a")
	p.Fork(1, 2)
	p.Mmap(1, 0x2000, 0x1000, "//b")
	p.Mmap(2, 0x3000, 0x1000, "//c")
	p.Fork(2, 3)
	p.Sample(1)
	p.Sample(2)
	p.Sample(3)
	p.Exec(2, "other")
	p.Sample(2)
	p.Sample(3)
	var got []string
	err := samples(t, &p, func(s *Sample) {
		var names []string
		for _, m := range s.Modules.All() {
			names = append(names, m.Name)
		}
		got = append(got, fmt.Sprintf("%d %s %s", s.PID, s.Comm, strings.Join(names, " ")))
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "1 parent //a //b; 2 parent //a //c; 3 parent //a //c; 2 other ; 3 parent //a //c"
	if strings.Join(got, "; ") != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestBehind: a process that maps between every two samples is followed exactly at first,
// and then in steps, which is said once; others are not concerned.
func TestBehind(t *testing.T) {
	var p elfbuild.PerfData
	const n = 5000
	for i := range uint64(n) {
		p.Mmap(1, i<<13, 0x1000, "//anon")
		p.Sample(1)
	}
	p.Mmap(2, 0x1000, 0x1000, "//anon")
	p.Sample(2)
	i, exact, other := 0, 0, 0
	err := samples(t, &p, func(s *Sample) {
		if s.PID == 2 {
			other = len(s.Modules.All())
			return
		}
		i++
		have := len(s.Modules.All())
		if have == i {
			exact++
		}
		if have > i || 2*have < i {
			t.Fatalf("sample %d has %d mappings", i, have)
		}
	})
	if exact < 300 || exact == n || other != 1 {
		t.Errorf("%d of %d samples are exact, the other process has %d mappings", exact, n, other)
	}
	if err == nil || strings.Count(err.Error(), "process 1 maps so often") != 1 || strings.Contains(err.Error(), "process 2") {
		t.Errorf("got %v", err)
	}
}
