package probe

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestSeenAndMissedAreAll: what programs at a function's entry and return count,
// and what the kernel says that they missed, is what was called, by many threads
// at a time. The function is the kernel's own for tests, which BPF_PROG_TEST_RUN
// of a tracing program calls and nobody else.
func TestSeenAndMissedAreAll(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Fentry)
	const threads, calls = 8, 500
	caller, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "caller", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: "bpf_fentry_test1", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	type watch struct {
		n    *counter
		l    *Link
		made uint64
	}
	var all []watch
	for _, c := range []struct {
		target  string
		session bool
	}{{"fentry:bpf_fentry_test1", false}, {"fexit:bpf_fentry_test1", false}, {"fentry:bpf_fentry_test1", true}} {
		if err := feature.Test(feature.Fsession); c.session && errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		w := watch{made: threads * calls}
		if c.session {
			w.made *= 2
		}
		w.n, w.l = attachCounter(t, mustResolve(t, &Options{EntryReturn: c.session}, c.target), probetest.Counting{Value: -1})
		all = append(all, w)
	}
	before512 := strings.HasPrefix(feature.Release(), "5.10.")
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			for range calls {
				if _, err := kernel.TestRun(caller.FD(), nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, w := range all {
		st, err := w.l.Stats()
		if err != nil {
			t.Fatal(err)
		}
		seen := w.n.read(t, 0).Count
		if st.Missed+st.Recursion > 0 {
			t.Logf("%s: seen %d, %+v", w.l.Sites()[0].Target, seen, st)
		}
		if before512 && seen <= w.made { // the kernel does not count what it leaves out
			continue
		}
		if seen+st.Missed+st.Recursion != w.made {
			t.Errorf("%s: seen %d and missed %+v of %d", w.l.Sites()[0].Target, seen, st, w.made)
		}
	}
}

// TestTwiceOnAFunction: a program that is on a function is not put there again,
// and the error says so.
func TestTwiceOnAFunction(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Fentry)
	plan := mustResolve(t, nil, "fentry:bpf_fentry_test1")
	n, l := attachCounter(t, plan, probetest.Counting{Value: -1})
	again, err := plan.Attach(n.progs, nil)
	if err == nil {
		again.Close()
		t.Fatalf("attached twice: %v", l.Sites())
	}
	if !errors.Is(err, errors.ErrUnsupported) && !strings.Contains(err.Error(), "already") { // before 5.13 it is attached once in its life
		t.Error(err)
	}
}
