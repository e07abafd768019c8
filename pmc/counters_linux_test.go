package pmc

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/testenv"
)

// onThread runs a test on one thread that nothing else uses.
func lockThread(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}

// openAll opens events for this thread.
func openAll(t testing.TB, s Scope, o *CountOptions, events ...Event) *Counters {
	t.Helper()
	c, err := Open(events, s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func read(t testing.TB, c *Counters) Counts {
	t.Helper()
	var k Counts
	if err := c.Read(&k); err != nil {
		t.Fatal(err)
	}
	return k
}

func rusage(t *testing.T) unix.Rusage {
	t.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPageFaults: the event against the kernel's own accounting (getrusage), which is read
// right inside and right outside of what the event counts, because the Go runtime may fault
// between reading the one and the other.
func TestPageFaults(t *testing.T) {
	testenv.Need(t, testenv.Root)
	lockThread(t)
	c := openAll(t, Scope{}, nil, PageFaults(), MinorFaults(), MajorFaults())
	const pages = 500
	mem, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if err := unix.Madvise(mem, unix.MADV_NOHUGEPAGE); err != nil {
		t.Log(err) // without CONFIG_TRANSPARENT_HUGEPAGE
	}
	before, after := read(t, c), read(t, c) // both have their memory now
	var r [4]unix.Rusage
	errs := []error{unix.Getrusage(unix.RUSAGE_THREAD, &r[0]), c.Read(&before), unix.Getrusage(unix.RUSAGE_THREAD, &r[1])}
	for i := range pages {
		mem[i*os.Getpagesize()] = 1
	}
	errs = append(errs, unix.Getrusage(unix.RUSAGE_THREAD, &r[2]), c.Read(&after), unix.Getrusage(unix.RUSAGE_THREAD, &r[3]))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	least := [3]int64{1: r[2].Minflt - r[1].Minflt, 2: r[2].Majflt - r[1].Majflt}
	most := [3]int64{1: r[3].Minflt - r[0].Minflt, 2: r[3].Majflt - r[0].Majflt}
	least[0], most[0] = least[1]+least[2], most[1]+most[2]
	if least[1] < pages {
		t.Fatalf("%d minor faults for %d pages", least[1], pages)
	}
	for i, v := range after.Sub(before).Totals() {
		if v.Confidence != Exact || v.Coverage != 1 || int64(v.Count) < least[i] || int64(v.Count) > most[i] {
			t.Errorf("%s: %d, %s, coverage %v; getrusage says %d to %d", v.Event, v.Count, v.Confidence, v.Coverage, least[i], most[i])
		}
	}
}

// TestContextSwitches: the event against /proc.
func TestContextSwitches(t *testing.T) {
	testenv.Need(t, testenv.Root)
	lockThread(t)
	c := openAll(t, Scope{}, nil, ContextSwitches())
	r0, k0 := rusage(t), read(t, c)
	for range 50 {
		ts := unix.Timespec{Nsec: 100_000}
		unix.Nanosleep(&ts, nil)
	}
	k1, r1 := read(t, c), rusage(t)
	d := k1.Sub(k0)
	// An involuntary switch may fall between reading the one and the other, and
	// on a slow machine the time may be over before the thread is off its CPU.
	want := uint64(r1.Nvcsw - r0.Nvcsw + r1.Nivcsw - r0.Nivcsw)
	if got := d.Totals()[0].Count; got > want || got+2 < want || got == 0 {
		t.Errorf("%d context switches, getrusage says %d", got, want)
	}
}

// threadTime is the CPU time of this thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// TestTaskClock: the event counts at least the thread's CPU time that was read inside, and at
// most the time that went by outside. What a hypervisor takes away in between is in the one and
// not in the other.
func TestTaskClock(t *testing.T) {
	testenv.Need(t, testenv.Root)
	lockThread(t)
	c := openAll(t, Scope{}, nil, TaskClock())
	begin := time.Now()
	k0 := read(t, c)
	t0 := threadTime(t)
	for threadTime(t)-t0 < 50*time.Millisecond {
	}
	least := threadTime(t) - t0
	got := time.Duration(read(t, c).Sub(k0).Totals()[0].Count)
	most := time.Since(begin)
	// NTP may run the system's clock 0.05 % slow (Documentation/timers, adjtimex).
	if got < least || got > most+most/1000 {
		t.Errorf("task clock %v, the thread ran for %v in %v", got, least, most)
	}
}

// watched is the word that breakpoints are set on; a global does not move.
var watched uint64

// TestBreakpoint: 1,000 writes are 1,000 hits.
func TestBreakpoint(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Watchpoint)
	lockThread(t)
	c := openAll(t, Scope{}, nil, Breakpoint(uint64(uintptr(unsafe.Pointer(&watched))), 8, BPWrite))
	for i := range uint64(1000) {
		atomic.StoreUint64(&watched, i)
	}
	got := read(t, c).Rows[0].Raw
	// QEMU's guests count one too many (the facts pages; its emulation's own).
	if got != 1000 && (!testenv.InGuest() || got != 1001) {
		t.Errorf("%d hits for 1000 writes", got)
	}
}

// TestTracepoint: 1,000 system calls are 1,000 hits, also with a filter.
func TestTracepoint(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	lockThread(t)
	e, err := ParseEvent("syscalls:sys_enter_getppid", nil)
	if errors.Is(err, fs.ErrNotExist) {
		e, err = ParseEvent("raw_syscalls:sys_enter", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := openAll(t, Scope{}, &CountOptions{Disabled: true}, e)
	if strings.HasPrefix(e.Name, "raw_") {
		if err := c.Handles(e)[0].SetFilter("id == " + strconv.Itoa(unix.SYS_GETPPID)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Enable(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		os.Getppid()
	}
	if got := read(t, c).Rows[0].Raw; got != 1000 {
		t.Errorf("%d hits for 1000 system calls", got)
	}
}

// TestInherit: the system calls of children are counted, and those of the first
// program from its execve on where that is asked for.
func TestInherit(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	e, err := ParseEvent("syscalls:sys_enter_getppid", nil)
	if err != nil {
		testenv.SkipUnsupported(t, &UnsupportedError{Feature: "system call tracepoints", Hint: "CONFIG_FTRACE_SYSCALLS is not set", Err: err})
	}
	lockThread(t)
	run := func(children int, o *CountOptions) []Value {
		c := openAll(t, Scope{}, o, e, PageFaults())
		os.Getppid()
		for range children {
			cmd := testenv.Command(t, "/proc/self/exe").Here()
			cmd.Env = append(os.Environ(), "PMC_CHILD=700")
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
		}
		return read(t, c).Totals()
	}
	// Each child asks once before its execve, whether the parent to end with is there.
	if v := run(3, &CountOptions{Inherit: true}); v[0].Count != 1+3*701 || v[1].Count == 0 {
		t.Errorf("three children: %d system calls, want %d; %d page faults", v[0].Count, 1+3*701, v[1].Count)
	}
	if v := run(1, &CountOptions{Inherit: true, EnableOnExec: true}); v[0].Count != 700 || v[1].Count == 0 {
		t.Errorf("after execve: %d system calls, want 700; %d page faults", v[0].Count, v[1].Count)
	}
	if v := run(1, nil); v[0].Count != 1 {
		t.Errorf("without inherit: %d system calls, want 1", v[0].Count)
	}
}

// TestGroupConsistent: all members of a group were enabled and running for the
// same time, and a group's clocks never go back and go on with the thread's.
func TestGroupConsistent(t *testing.T) {
	testenv.Need(t, testenv.Root)
	lockThread(t)
	c := openAll(t, Scope{}, nil, TaskClock(), CPUClock(), PageFaults(), ContextSwitches())
	if groupsOf(c) != 1 {
		t.Fatalf("%d groups", groupsOf(c))
	}
	first := read(t, c)
	last := first
	for range 1000 {
		k := read(t, c)
		for i, r := range k.Rows {
			if r.Enabled != k.Rows[0].Enabled || r.Running != k.Rows[0].Running {
				t.Fatalf("members differ: %+v", k.Rows)
			}
			if r.Raw < last.Rows[i].Raw {
				t.Fatalf("%s went from %d back to %d", k.Events[r.Event], last.Rows[i].Raw, r.Raw)
			}
		}
		last = k
	}
	// The kernel's clock may stand for milliseconds, on emulated machines: what
	// counts is that it goes on where the thread's own does.
	for range 3 {
		for t0 := threadTime(t); threadTime(t)-t0 < 20*time.Millisecond; {
		}
		k := read(t, c)
		for i, r := range k.Rows[:2] {
			if r.Raw <= last.Rows[i].Raw {
				t.Errorf("%s stays at %d while the thread runs for 20 ms", k.Events[r.Event], r.Raw)
			}
		}
		last = k
	}
}

// TestScopes: CPUs add up to all, a thread of another goroutine is counted, a
// process has all its threads.
func TestScopes(t *testing.T) {
	testenv.Need(t, testenv.Root)
	online, err := cpus.Online(nil)
	if err != nil {
		t.Fatal(err)
	}
	all := openAll(t, Scope{AllCPUs: true}, nil, CPUClock())
	one := openAll(t, Scope{CPUs: online[:1]}, nil, CPUClock())
	process := openAll(t, Scope{Process: os.Getpid()}, nil, TaskClock())
	tid := make(chan int)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tid <- unix.Gettid()
		for !stop.Load() {
		}
	})
	thread := openAll(t, Scope{Thread: <-tid}, nil, TaskClock())
	time.Sleep(50 * time.Millisecond)
	stop.Store(true)
	wg.Wait()
	if k := read(t, all); len(k.Rows) != len(online) || len(k.PerCPU()) != len(online) || k.Totals()[0].Count < uint64(40*time.Millisecond)*uint64(len(online)) {
		t.Errorf("all CPUs: %+v", k.Rows)
	}
	if k := read(t, one); len(k.Rows) != 1 || k.Rows[0].CPU != online[0] || k.Rows[0].Raw < uint64(40*time.Millisecond) {
		t.Errorf("one CPU: %+v", k.Rows)
	}
	if k := read(t, thread); k.Totals()[0].Count == 0 {
		t.Errorf("a thread that span: %+v", k.Rows)
	}
	if k := read(t, process); len(k.PerThread()) < 2 {
		t.Errorf("process: %d threads", len(k.PerThread()))
	}
}

// TestSplitReportsAll: events that can't be in one group are all counted.
func TestSplitReportsAll(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Watchpoint)
	lockThread(t)
	// A hardware event leads no group that a breakpoint joins, and the other
	// way round; both are with clocks.
	c := openAll(t, Scope{}, nil, TaskClock(), Breakpoint(uint64(uintptr(unsafe.Pointer(&watched))), 8, BPWrite), PageFaults())
	atomic.StoreUint64(&watched, 1)
	k := read(t, c)
	if len(k.Rows) != 3 || k.Totals()[0].Count == 0 || k.Totals()[1].Count == 0 {
		t.Errorf("%d groups, %+v", groupsOf(c), k.Rows)
	}
}

// TestAllowMissing: what the machine has not is left out with its reason.
func TestAllowMissing(t *testing.T) {
	testenv.Need(t, testenv.Root)
	lockThread(t)
	missing := Event{Type: 9999, Config: 1}
	c := openAll(t, Scope{}, &CountOptions{AllowMissing: true}, missing, TaskClock())
	k := read(t, c)
	v := k.Totals()
	if v[0].Confidence != NotSupported || !strings.Contains(v[0].Error, "no PMU has type 9999") {
		t.Errorf("missing: %+v", v[0])
	}
	if v[1].Confidence != Exact || v[1].Count == 0 {
		t.Errorf("task clock: %+v", v[1])
	}
	if _, err := Open([]Event{missing}, Scope{}, nil); !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, unix.ENOENT) {
		t.Errorf("without AllowMissing: %v", err)
	}
}

func TestCgroup(t *testing.T) {
	testenv.Need(t, testenv.Root)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	mount := perfCgroupMount(string(mounts))
	switch {
	case mount == "" && testenv.InGuest():
		mount = testenv.Cgroup2(t)
	case mount == "":
		testenv.SkipUnsupported(t, &UnsupportedError{Feature: "cgroups", Hint: "none is mounted"})
	}
	dir := mount + "/borescope-pmc-" + strconv.Itoa(os.Getpid())
	if err := os.Mkdir(dir, 0o755); err != nil {
		testenv.Need(t, testenv.Got("cgroup", err, "read-only file system"))
	}
	defer os.Remove(dir)
	c, err := Open([]Event{PageFaults(), TaskClock()}, Scope{Cgroup: dir}, nil)
	if errors.Is(err, errors.ErrUnsupported) {
		// The quirk of a fresh cgroup2: the error says what to write where.
		if !strings.Contains(err.Error(), "cgroup.subtree_control") {
			t.Fatalf("no way out named: %v", err)
		}
		if !testenv.InGuest() { // nor does it write there
			testenv.SkipUnsupported(t, err)
		}
		if err := os.WriteFile(mount+"/cgroup.subtree_control", []byte("+pids"), 0); err != nil {
			t.Fatal(err)
		}
		c, err = Open([]Event{PageFaults(), TaskClock()}, Scope{Cgroup: dir}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cmd := testenv.Command(t, "/proc/self/exe")
	cmd.Env = append(os.Environ(), "PMC_CHILD=1", "PMC_CGROUP="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if v := read(t, c).Totals(); v[0].Count < 100 || v[1].Count == 0 {
		t.Errorf("a program in the cgroup: %+v", v)
	}
}

// TestCloseLeavesNothing: descriptors are closed, and everything says so.
func TestCloseLeavesNothing(t *testing.T) {
	testenv.Need(t, testenv.Root)
	c, err := Open([]Event{TaskClock(), PageFaults()}, Scope{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := c.Handles(PageFaults())[0]
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var k Counts
	if err := c.Read(&k); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	if err := c.Enable(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Enable after Close: %v", err)
	}
	if err := h.enable(); !errors.Is(err, os.ErrClosed) || h.FD() != -1 {
		t.Errorf("the handle: %v, %d", err, h.FD())
	}
	var none *Counters
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}

// groupsOf returns how many groups the events were split into at each place: 1 if all fit
// the counters together.
func groupsOf(c *Counters) int {
	n := 0
	for i := range c.groups {
		n = max(n, c.groups[i].number+1)
	}
	return n
}
