package collect_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/internal/stacktest"
	"github.com/borescope/borescope/symbol"
)

// TestCompat: the stacks of 32-bit programs without frame pointers are whole, through handlers of signals
// of both kinds, and each of their functions is called by the one that calls it. They were said not to
// exist.
func TestCompat(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	chain := []string{"leaf", "third", "second", "first"}
	for name, c := range map[string]struct {
		start func(t *testing.T) int
		chain []string
	}{
		"plain": {
			func(t *testing.T) int { return stacktest.StartChain(t) },
			append(chain, "main", "...", "_start"),
		},
		"signal": {
			func(t *testing.T) int { return stacktest.StartChain(t, "-DSIGNAL", "-DFLAGS=0") },
			append(chain, "handler", "__kernel_sigreturn", "__kernel_vsyscall", "...", "raise", "main", "...", "_start"),
		},
		"siginfo": {
			func(t *testing.T) int { return stacktest.StartChain(t, "-DSIGNAL", "-DFLAGS=SA_SIGINFO") },
			append(chain, "handler", "__kernel_rt_sigreturn", "__kernel_vsyscall", "...", "raise", "main", "...", "_start"),
		},
		"static": {
			func(t *testing.T) int { return stacktest.StartChain(t, "-static") },
			append(chain, "main", "...", "_start"),
		},
		"Go": {
			stacktest.StartGoChain,
			[]string{"main.leaf", "main.third", "main.second", "main.first", "main.main", "runtime.main", "runtime.goexit"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pid := c.start(t)
			checkCompat(t, pid, c.chain)
		})
	}
}

// chain32 are the functions of the program of stacktest.Chain32 on amd64. On arm64 it has the first and the last.
var chain32 = []string{"leaf", "third", "second", "first", "main", "_start"}

// TestCompatChain is TestCompat with a program that every machine has. On arm64 its stacks end at the innermost
// frame, and say why.
func TestCompatChain(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	pid := stacktest.StartChain32(t)
	if runtime.GOARCH == "amd64" {
		checkCompat(t, pid, chain32)
		return
	}
	samples, _, names := watchCompat(t, pid)
	n := uint64(0)
	for i := range samples {
		s := &samples[i]
		switch {
		case s.User.Stopped != stack.StopCompat || len(names[i]) != 1:
			t.Errorf("%d samples end by %v and have %s", s.Count, s.User.Stopped, strings.Join(names[i], " "))
		case names[i][0] == "leaf":
			n += s.Count
		}
	}
	if n < 300 {
		t.Errorf("%d samples in leaf", n)
	}
}

// TestCompatCopies: the copies of a 32-bit program's stacks are walked as those of others. Each is of the
// function that ran and of all that lead to it: of 20,000 samples some are not in leaf.
func TestCompatCopies(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	pid := stacktest.StartChain32(t)
	var cache stack.CFICache
	mods, err := cache.Modules(pid)
	if err != nil {
		t.Log(err)
	}
	c, err := collect.AttachCopies([]probe.Target{probe.Perf{Freq: 999}}, &collect.CopyOptions{Options: collect.Options{PIDs: []int{pid}}})
	if err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	function := stacktest.Functions(t, fmt.Sprintf("/proc/%d/exe", pid))
	var cp collect.Copy
	var dst [stack.MaxFrames]stack.Frame
	for i := range 100 {
		if err := c.ReadInto(ctx, &cp); err != nil {
			t.Fatal(err)
		}
		pc := cp.User.Regs.PC()
		at := slices.Index(chain32, function(pc))
		if at < 0 {
			t.Fatalf("copy %d is of %#x, in %s", i, pc, function(pc))
		}
		want, end := chain32[at:], stack.StopBottom
		if runtime.GOARCH == "arm64" {
			want, end = want[:1], stack.StopCompat
		}
		n, stopped := cp.User.Walk(dst[:], &stack.CFIWalker{Modules: mods})
		var got []string
		for _, f := range dst[:n] {
			got = append(got, function(f.LookupPC()))
		}
		if !slices.Equal(got, want) || stopped != end {
			t.Errorf("copy %d of %#x: %q, end %v; want %q, %v", i, pc, got, stopped, want, end)
		}
	}
}

// checkCompat checks that the stacks of a process are whole where they are in the chain's first
// function, and that they are those of the chain, in which "..." stands for any functions.
func checkCompat(t *testing.T, pid int, chain []string) {
	t.Helper()
	samples, stats, named := watchCompat(t, pid)
	var all, inLeaf, whole, cut uint64
	for i := range samples {
		s, names := &samples[i], named[i]
		all += s.Count
		switch {
		case s.User.Stopped == stack.StopCompat && len(names) == 1:
			cut += s.Count // there was no room for a copy, or what it needs was not there yet
		case len(names) > 0 && names[0] == chain[0]:
			inLeaf += s.Count
			if s.User.Stopped == stack.StopBottom && isChain(names, chain) {
				whole += s.Count
				break
			}
			t.Errorf("%d samples end by %v and have %s", s.Count, s.User.Stopped, strings.Join(names, " "))
		case s.User.Stopped != stack.StopBottom:
			cut += s.Count
			t.Logf("%d samples end by %v and have %s", s.Count, s.User.Stopped, strings.Join(names, " "))
		}
	}
	t.Logf("%d samples, %d in %s, %d whole, %d cut", all, inLeaf, chain[0], whole, cut)
	if all < 300 || whole < inLeaf || inLeaf+cut < all*9/10 || cut > all/50+stats.CopyFull {
		t.Errorf("%d samples, %d in %s, of which %d are whole; %d are cut: %+v", all, inLeaf, chain[0], whole, cut, stats)
	}
}

// watchCompat samples a process for two seconds, and names the functions of its stacks.
func watchCompat(t *testing.T, pid int) (samples []collect.Sample, stats collect.Stats, names [][]string) {
	t.Helper()
	c := attach(t, probe.Perf{Freq: 999}, &collect.Options{PIDs: []int{pid}, NoKernel: true, Windows: true, Hold: true})
	defer c.Close()
	ps := symbol.NewProcesses(nil)
	defer ps.Close()
	var unwalked error
	stop := c.Watch(ps, func(err error) { unwalked = err })
	for end := time.Now().Add(20 * time.Second); stats.Samples == 0 && time.Now().Before(end); { // the walker is loaded
		time.Sleep(50 * time.Millisecond)
		var err error
		if stats, err = c.Stats(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second)
	samples, err := c.ReadAndClear()
	if err != nil {
		t.Fatal(err)
	}
	if stats, err = c.Stats(); err != nil {
		t.Fatal(err)
	}
	prof := namesOf(t, ps, samples)
	if err := stop(); err != nil {
		t.Error(err)
	}
	testenv.SkipUnsupported(t, unwalked)
	for i := range prof.Samples {
		var list []string
		for _, f := range prof.Samples[i].Frames {
			name := "?"
			if len(f.Functions) > 0 {
				name = f.Functions[0].Name
			}
			list = append(list, name)
		}
		names = append(names, list)
	}
	return samples, stats, names
}

// isChain reports whether names are those of a chain.
func isChain(names, chain []string) bool {
	for i, want := range chain {
		if want == "..." {
			for at := range names {
				if isChain(names[at:], chain[i+1:]) {
					return true
				}
			}
			return false
		}
		if len(names) == 0 || names[0] != want {
			return false
		}
		names = names[1:]
	}
	return len(names) == 0 || slices.Equal(names, chain)
}
