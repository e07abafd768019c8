package collect_test

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
)

// readSize is how many bytes the workload asks for each time; it gets one.
const readSize = 3

// holdTime is for how long the workload has to wait each time, at least.
const holdTime = 2 * time.Millisecond

// TestReader is the child of the tests below. One thread of it does all the work
// by raw system calls, so that Go's scheduler has no part in when it waits: it
// says its number, waits for a byte 24 times, and for the end of its input.
func TestReader(t *testing.T) {
	if os.Getenv("COLLECT_WORKLOAD") != "read" {
		return
	}
	runtime.LockOSThread()
	unix.SetNonblock(0, false)
	if err := binary.Write(os.Stdout, binary.NativeEndian, uint64(unix.Gettid())); err != nil {
		t.Fatal(err)
	}
	reading(new([8]byte))
	os.Exit(0)
}

// reading is nosplit so that Go's scheduler can't stop the thread in it.
//
//go:nosplit
func reading(buf *[8]byte) {
	for range workload + 2 {
		unix.RawSyscall(unix.SYS_READ, 0, uintptr(unsafe.Pointer(buf)), readSize)
	}
}

// reader is a started TestReader.
type reader struct {
	t        *testing.T
	pid, tid int
	in       *os.File
}

func startReader(t *testing.T) *reader {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Tracepoint("sched", "sched_waking"))
	cmd, in, out := startWork(t, "TestReader", "read", 0)
	n := &reader{t: t, pid: cmd.Process.Pid, in: in}
	var tid uint64
	if err := binary.Read(out, binary.NativeEndian, &tid); err != nil {
		t.Fatal(err)
	}
	n.tid = int(tid)
	return n
}

// waitBlocked returns when the thread has taken what it was fed and waits in
// read. One that is being woken, on a slow machine for long, looks blocked still:
// fed again then, it would take two bytes in one read.
func (n *reader) waitBlocked() {
	n.t.Helper()
	for {
		left, err := unix.IoctlGetInt(int(n.in.Fd()), unix.TIOCINQ)
		if err != nil {
			n.t.Fatal(err)
		}
		if left == 0 {
			break
		}
		time.Sleep(100 * time.Microsecond)
	}
	testenv.WaitBlocked(n.t, n.tid, unix.SYS_READ, 0)
}

// feed gives the thread the bytes it waits for, one each time it waits. It
// returns for how long the thread waited at least after the first byte, and at
// most. The wait for the first began before Attach and is not counted.
func (n *reader) feed() (least, most time.Duration) {
	n.t.Helper()
	begin := time.Now()
	for i := range workload + 1 {
		n.waitBlocked()
		blocked := time.Now()
		time.Sleep(holdTime)
		if i > 0 {
			least += time.Since(blocked)
		}
		n.in.Write([]byte{'.'})
	}
	n.waitBlocked() // the last wait has ended
	return least, time.Since(begin)
}

// samplesOf returns what was collected of the thread.
func (n *reader) samplesOf(c *collect.Collector) []collect.Sample {
	n.t.Helper()
	all, err := c.Samples()
	if err != nil {
		n.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(s collect.Sample) bool {
		if s.PID != n.pid {
			n.t.Errorf("a sample of process %d, want only those of %d", s.PID, n.pid)
		}
		return s.TID != n.tid
	})
}

// finishWaits returns the samples of the thread: that many waits, which took
// between least and most. Nothing may be left after Close.
func (n *reader) finishWaits(c *collect.Collector, count uint64, least, most time.Duration) []collect.Sample {
	n.t.Helper()
	out := n.samplesOf(c)
	stats, err := c.Stats()
	if err != nil {
		n.t.Fatal(err)
	}
	if stats.LostFull+stats.LostNested+stats.LostWaits+stats.CutShort != 0 {
		n.t.Errorf("stats %+v, want nothing lost for want of room", stats)
	}
	var got uint64
	var sum time.Duration
	for _, s := range out {
		got += s.Count
		sum += time.Duration(s.Value)
	}
	// The kernel leaves events out where another program runs on the CPU. Switches of
	// this process that are missing are seen by what comes before and after them. Those
	// of a whole stay on the CPU are not: what is missing then, its beginning and its end,
	// are in the kernel's count, and two waits are one, which is as long.
	missing := stats.Unended + stats.Gaps + stats.Unwoken
	if got < count && count-got <= missing {
		n.t.Logf("%d of %d seen: %+v", got, count, stats)
		count, least = got, min(least, sum)
	} else if joined := count - got - missing; got < count && 2*joined <= stats.Missed {
		n.t.Logf("%d of %d seen, %d as parts of others: %+v", got, count, joined, stats)
		count = got
		if missing > 0 {
			least = min(least, sum)
		}
	}
	if got != count || sum < least || sum > most {
		n.t.Errorf("%d waits of %v together, want %d of %v to %v", got, sum, count, least, most)
	}
	owned := testenv.ObjectsOf(0)
	for range 2 {
		if err := c.Close(); err != nil {
			n.t.Error(err)
		}
	}
	owned.WaitGone(n.t)
	return out
}

func (n *reader) attach(kind collect.Waits, o collect.WaitOptions) *collect.Collector {
	n.t.Helper()
	n.waitBlocked() // or the wait for the first byte might be counted, or not
	o.PIDs, o.PerThread = []int{n.pid}, true
	c, err := collect.AttachWaits(kind, &o)
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// The thread was off its CPU whenever it waited for a byte.
func TestOffCPU(t *testing.T) {
	n := startReader(t)
	c := n.attach(collect.OffCPU, collect.WaitOptions{Min: holdTime, States: collect.Interruptible})
	least, most := n.feed()
	for _, s := range n.finishWaits(c, workload, least, most) {
		if len(s.Kernel.Frames) == 0 || len(s.User.Frames) == 0 || s.Waker != nil {
			t.Errorf("a stack is missing, or there is a waker: %+v", s)
		}
	}
}

// Waits that are too long are left out.
func TestOffCPUMax(t *testing.T) {
	n := startReader(t)
	c := n.attach(collect.OffCPU, collect.WaitOptions{Max: holdTime - 1, States: collect.Interruptible})
	n.feed()
	n.finishWaits(c, 0, 0, 0)
}

// The walker takes over, and walks both the sleeper and the waker.
func TestWaitsWithWalker(t *testing.T) {
	n := startReader(t)
	c := n.attach(collect.OffWake, collect.WaitOptions{States: collect.Interruptible})
	if err := c.LoadWalker(); err != nil {
		err = errors.Join(err, c.Close())
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	least, most := n.feed()
	for _, s := range n.finishWaits(c, workload, least, most) {
		if s.Waker == nil || len(s.User.Frames) == 0 || len(s.Waker.User.Frames) == 0 {
			t.Fatalf("a stack is missing: %+v", s)
		}
		if s.User.Frames[0].Source != stack.SourceRegs || s.Waker.User.Frames[0].Source != stack.SourceRegs {
			t.Errorf("a stack is none of the walker's: %+v", s)
		}
	}
}

// It is this process that writes the bytes that the thread waits for. (It waits
// in other states than this one for the lock of the pipe.)
func TestWakeups(t *testing.T) {
	n := startReader(t)
	c := n.attach(collect.Wakeups, collect.WaitOptions{States: collect.Interruptible})
	least, most := n.feed()
	samples := n.finishWaits(c, workload, least, most)
	for _, s := range samples {
		if len(s.User.Frames)+len(s.Kernel.Frames) != 0 {
			t.Errorf("a wakeup has stacks of the sleeper: %+v", s)
		}
	}
	checkWakers(t, samples)
}

// The same, with the sleeper's stacks.
func TestOffWake(t *testing.T) {
	n := startReader(t)
	c := n.attach(collect.OffWake, collect.WaitOptions{States: collect.Interruptible})
	least, most := n.feed()
	samples := n.finishWaits(c, workload, least, most)
	for _, s := range samples {
		if len(s.User.Frames) == 0 || len(s.Kernel.Frames) == 0 {
			t.Errorf("a stack of the sleeper is missing: %+v", s)
		}
	}
	checkWakers(t, samples)
}

// checkWakers checks that this process ended the waits, with its stacks.
func checkWakers(t *testing.T, samples []collect.Sample) {
	t.Helper()
	for _, s := range samples {
		w := s.Waker
		if w == nil || w.PID != os.Getpid() || w.Comm == "" || len(w.Kernel.Frames) == 0 || len(w.User.Frames) == 0 {
			t.Errorf("%d waits were ended by %+v, want this process with both stacks", s.Count, w)
		}
	}
}
