package bpfwalk

import (
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// TestWalkerCompat: the stacks of a 32-bit program, whose files the walker has, end at the innermost frame and
// say why. There was said to be no user stack.
func TestWalkerCompat(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Ringbuf)
	pid := stacktest.StartChain32(t)
	w := kernelWalker(t)
	b := loadBPF(t, w.StateSize(), stateProgram(w), nil)
	var cache stack.CFICache
	mods, err := cache.Modules(pid)
	if err != nil {
		t.Log(err)
	}
	if err := b.tables.SetProcess(pid, mods); err != nil {
		t.Fatal(err)
	}
	if rows := b.tables.Rows(); rows != 0 {
		t.Errorf("%d rows of 32-bit code", rows)
	}
	rd, err := ringbuf.NewReader(b.maps["ring"])
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	event := b.sample(t, pid, 999)
	defer event.Close()
	rd.SetDeadline(time.Now().Add(time.Minute))
	for range 50 {
		rec, err := rd.Read()
		if err != nil {
			t.Fatal(err)
		}
		s := w.Decode(nil, rec.RawSample)
		if len(s.Frames) != 1 || s.Stopped != stack.StopCompat || s.Unknown || mods.Find(s.Frames[0].PC) == nil {
			t.Fatalf("unknown %v, %v %v", s.Unknown, s.Frames, s.Stopped)
		}
	}
}
