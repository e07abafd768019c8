package collect_test

import (
	"context"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
)

// A stripped shell in a deep recursion, whose stack no frame pointers lead
// through: walked in Go from what was copied it is whole, and one that is deeper
// than what is copied says so.
func TestCopies(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Tool("bash"))
	sh := testenv.Command(t, "bash", "-c", `f() { if (( $1 > 0 )); then f $(( $1 - 1 )); else while :; do x=aa; done; fi; }; f 12`)
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sh.Process.Kill(); sh.Wait() }()
	for name, c := range map[string]struct {
		bytes int
		end   stack.StopReason
	}{"whole": {64 << 10, stack.StopBottom}, "short": {4096, stack.StopTruncated}} {
		t.Run(name, func(t *testing.T) { copyShell(t, sh.Process.Pid, c.bytes, c.end) })
	}
}

// copyProcess starts to copy the stacks of a process, and knows how to walk them.
func copyProcess(t *testing.T, pid, bytes int) (*collect.Copies, *stack.CFIWalker) {
	t.Helper()
	c, err := collect.AttachCopies([]probe.Target{probe.Perf{Freq: 199}}, &collect.CopyOptions{
		Options: collect.Options{PIDs: []int{pid}}, Bytes: bytes,
	})
	if err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var cache stack.CFICache
	mods, err := cache.Modules(pid)
	if err != nil {
		t.Log(err) // the vsyscall page has no file
	}
	return c, &stack.CFIWalker{Modules: mods}
}

func copyShell(t *testing.T, pid, bytes int, want stack.StopReason) {
	c, w := copyProcess(t, pid, bytes)
	frames := make([]stack.Frame, stack.MaxFrames)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var cp collect.Copy
	ends := make(map[stack.StopReason]int)
	const all = 200
	for range all {
		if err := c.ReadInto(ctx, &cp); err != nil {
			t.Fatal(err)
		}
		if cp.PID != pid || cp.TID != pid || cp.Comm != "bash" || cp.Time == 0 {
			t.Fatalf("copy of %d/%d %q at %d", cp.PID, cp.TID, cp.Comm, cp.Time)
		}
		_, end := cp.User.Walk(frames, w)
		ends[end]++
	}
	// A sample may hit the shell while it grows its stack, in a signal's
	// trampoline, or in the vDSO.
	if ends[want] < all*95/100 {
		t.Errorf("stacks end so: %v; want %v", ends, want)
	}
	if n := testing.AllocsPerRun(20, func() { cp.User.Walk(frames, w) }); n != 0 {
		t.Errorf("walking a copy allocates %v times", n)
	}
	owned := testenv.ObjectsOf(0)
	if owned.Len() == 0 {
		t.Error("the open copies hold no BPF object")
	}
	if err := c.Detach(); err != nil {
		t.Error(err)
	}
	stats, err := c.Stats()
	if err != nil || stats.Samples < all || stats.LostNested != 0 {
		t.Errorf("stats %+v, %v", stats, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	owned.WaitGone(t)
}

// Every event is copied once, in time order on its thread. (Kernels of 5.10 find
// no kernel stack in system call tracepoints: perf_call_bpf_enter hands the user's
// registers on.)
func TestCopiesAreExact(t *testing.T) {
	n := startReader(t)
	n.waitBlocked()
	c, err := collect.AttachCopies([]probe.Target{probe.Tracepoint{Group: "syscalls", Name: "sys_enter_read"}},
		&collect.CopyOptions{Options: collect.Options{PIDs: []int{n.pid}}})
	if err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	n.feed()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var cp collect.Copy
	var last uint64
	want := workload + 1
	if !feature.KernelAtLeast("6.7") { // such leave events out without counting them
		want = workload * 3 / 4
	}
	for got := 0; got < want; {
		if err := c.ReadInto(ctx, &cp); err != nil {
			t.Fatalf("after %d copies: %v", got, err)
		}
		if cp.TID != n.tid {
			continue
		}
		got++
		if cp.Time <= last || cp.User.Regs.PC() == 0 || len(cp.User.Memory.Data) == 0 {
			t.Errorf("copy %d at %d after %d, program counter %#x, %d bytes",
				got, cp.Time, last, cp.User.Regs.PC(), len(cp.User.Memory.Data))
		}
		last = cp.Time
	}
	if stats, err := c.Stats(); err != nil || stats.Lost() != 0 {
		t.Errorf("stats %+v, %v", stats, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// The same, walked in Go: the return addresses come with the copy.
func TestCopiesPutReturnAddressesBack(t *testing.T) {
	pid := startReturns(t)
	c, w := copyProcess(t, pid, 64<<10)
	frames := make([]stack.Frame, stack.MaxFrames)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const all = 100
	whole, probes := 0, 0
	for range all {
		var cp collect.Copy
		if err := c.ReadInto(ctx, &cp); err != nil {
			t.Fatal(err)
		}
		if _, end := cp.User.Walk(frames, w); end == stack.StopBottom {
			whole++
		}
		probes += len(cp.User.Returns())
	}
	if whole < all*99/100 || probes < 12*all {
		t.Errorf("%d of %d stacks reach the thread's start, %d return probes in all", whole, all, probes)
	}
}
