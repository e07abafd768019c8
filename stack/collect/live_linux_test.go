package collect_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/symbol"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const workload = 23

var sink int

// leaf has no prologue that grows the stack: growing it would enter the
// function, and hit a probe at its entry, a second time.
//
//go:noinline
//go:nosplit
func leaf(n int) { sink += n }

//go:noinline
func caller() {
	for i := range workload {
		leaf(i)
		syscall.Getppid()
	}
}

// TestWorkload is the child of the tests below: it waits for a line, does 23
// calls, says so and waits for the end of its input.
func TestWorkload(t *testing.T) {
	if os.Getenv("COLLECT_WORKLOAD") != "1" {
		return
	}
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	caller()
	os.Stdout.WriteString("done\n")
	in.ReadString('\n')
	os.Exit(0)
}

// child is a started workload.
type child struct {
	t   *testing.T
	cmd *testenv.Cmd
	in  *os.File
	out *bufio.Reader
}

func startChild(t *testing.T) *child { return startChildIn(t, 0) }

// startChildIn is startChild in new namespaces.
func startChildIn(t *testing.T, flags uintptr) *child {
	t.Helper()
	cmd, in, out := startWork(t, "TestWorkload", "1", flags)
	return &child{t, cmd, in, bufio.NewReader(out)}
}

// startWork starts a test of this package as a child, in the new namespaces that
// flags ask for, which the end of its input ends.
func startWork(t *testing.T, test, workload string, flags uintptr) (cmd *testenv.Cmd, in *os.File, out io.Reader) {
	t.Helper()
	cmd = testenv.Command(t, "/proc/self/exe", "-test.run=^"+test+"$")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	// A signal for preemption may step over a probed instruction twice.
	cmd.Env = append(os.Environ(), "COLLECT_WORKLOAD="+workload, "GODEBUG=asyncpreemptoff=1")
	r, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return cmd, in, out
}

func (c *child) work() {
	c.t.Helper()
	c.in.WriteString("go\n")
	if line, err := c.out.ReadString('\n'); err != nil || line != "done\n" {
		c.t.Fatalf("workload said %q, %v", line, err)
	}
}

func attach(t *testing.T, target probe.Target, o *collect.Options) *collect.Collector {
	t.Helper()
	c, err := collect.Attach([]probe.Target{target}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// counted reads the samples, how many they are, and the statistics.
func counted(t *testing.T, c *collect.Collector) (samples []collect.Sample, n uint64, stats collect.Stats) {
	t.Helper()
	samples, err := c.Samples()
	if err != nil {
		t.Fatal(err)
	}
	if stats, err = c.Stats(); err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		n += s.Count
	}
	return samples, n, stats
}

// finish checks that 23 samples were counted and nothing was lost, and that
// nothing is left after Close.
func finish(t *testing.T, c *collect.Collector) []collect.Sample {
	t.Helper()
	samples, n, stats := counted(t, c)
	if n != workload || stats.Samples != workload || stats.Lost() != 0 || stats.CutShort != 0 {
		t.Errorf("counted %d of %d, stats %+v", n, workload, stats)
	}
	owned := testenv.ObjectsOf(0)
	if owned.Len() == 0 {
		t.Error("the open collector holds no BPF object")
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	owned.WaitGone(t)
	return samples
}

// A uprobe on a Go function: 23 hits with their stacks, which name the caller.
func TestUprobe(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := startChild(t)
	c := attach(t, probe.Uprobe{Path: exe, Symbol: "github.com/borescope/borescope/stack/collect_test.leaf"},
		&collect.Options{PIDs: []int{w.cmd.Process.Pid}})
	w.work()
	samples := finish(t, c)

	p, err := symbol.OpenProcess(w.cmd.Process.Pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, s := range samples {
		if s.PID != w.cmd.Process.Pid || s.TID != 0 || s.Comm == "" {
			t.Errorf("sample of %d/%d %q", s.PID, s.TID, s.Comm)
		}
		if len(s.User.Frames) < 3 {
			t.Fatalf("user stack %+v", s.User)
		}
		var names []string
		for _, f := range s.User.Frames {
			names = append(names, p.Resolve(nil, []uint64{f.LookupPC()})[0].Name)
		}
		if filepath.Ext(names[0]) != ".leaf" {
			t.Errorf("the innermost frame is %q, want leaf: %q", names[0], names)
		}
		if last := names[len(names)-1]; last != "runtime.goexit" && last != "runtime.goexit.abi0" {
			t.Errorf("the outermost frame is %q, want runtime.goexit: %q", last, names)
		}
	}
}

// A tracepoint, by thread, with user stacks only.
func TestTracepoint(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracepoint("syscalls", "sys_enter_getppid"))
	w := startChild(t)
	c := attach(t, probe.Tracepoint{Group: "syscalls", Name: "sys_enter_getppid"},
		&collect.Options{PIDs: []int{w.cmd.Process.Pid}, PerThread: true, NoKernel: true})

	// The first sight of the process is announced while it lives.
	w.work()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var rec mapx.Record
	if err := c.Processes().ReadInto(ctx, &rec); err != nil {
		t.Fatal(err)
	}
	if pid, tid, err := collect.ParseProcess(&rec); err != nil || pid != w.cmd.Process.Pid || tid == 0 {
		t.Errorf("announced %d/%d, %v, want process %d", pid, tid, err, w.cmd.Process.Pid)
	}
	for _, s := range finish(t, c) {
		if s.TID == 0 || s.Kernel.Stopped != stack.StopNone || len(s.Kernel.Frames) != 0 {
			t.Errorf("sample of thread %d with kernel stack %+v", s.TID, s.Kernel)
		}
	}
}

// TestEveryReaderAfterClose: all that reads says that the collector, the copies or the profiler
// are closed.
func TestEveryReaderAfterClose(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	target := []probe.Target{probe.RawTracepoint{Name: "sys_enter"}}
	for _, windows := range []bool{false, true} {
		c, err := collect.Attach(target, &collect.Options{NoUser: true, Windows: windows})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		profiled, err := collect.Attach(target, &collect.Options{NoUser: true, Windows: windows})
		if err != nil {
			t.Fatal(err)
		}
		p, err := collect.NewProfiler(profiled, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		reads := map[string]func() error{
			"Samples":   func() error { _, err := c.Samples(); return err },
			"Stats":     func() error { _, err := c.Stats(); return err },
			"Stopped":   func() error { _, err := c.Stopped(); return err },
			"Processes": func() error { return c.Processes().ReadInto(context.Background(), new(mapx.Record)) },
			"Profile":   func() error { _, err := p.Profile(); return err },
		}
		if windows {
			reads["ReadAndClear"] = func() error { _, err := c.ReadAndClear(); return err }
			reads["Window"] = func() error { _, err := p.Window(); return err }
		}
		for name, read := range reads {
			if err := read(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("%s with windows %v: %v", name, windows, err)
			}
		}
	}
	copies, err := collect.AttachCopies(target, nil)
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.SkipUnsupported(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := copies.Close(); err != nil {
		t.Fatal(err)
	}
	if err := copies.ReadInto(context.Background(), new(collect.Copy)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a copy: %v", err)
	}
	if _, err := copies.Stats(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("counts of copies: %v", err)
	}
}

// TestSecondSight: a process is announced when it is first seen and, as that may
// have been amid an exec, once more when it is seen later.
func TestSecondSight(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracepoint("syscalls", "sys_enter_getppid"))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := attach(t, probe.Tracepoint{Group: "syscalls", Name: "sys_enter_getppid"}, &collect.Options{PIDs: []int{os.Getpid()}, IncludeSelf: true})
	for i, s := range []struct{ calls, want int }{{1, 1}, {23, 1}, {23, 0}} {
		for range s.calls {
			os.Getppid()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		seen := 0
		var rec mapx.Record
		for c.Processes().ReadInto(ctx, &rec) == nil {
			seen++
			if pid, _, err := collect.ParseProcess(&rec); err != nil || pid != os.Getpid() {
				t.Errorf("announced %d, %v", pid, err)
			}
		}
		if seen != s.want {
			t.Errorf("%d announcements at sight %d, want %d", seen, i+1, s.want)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// A kernel function, in kernels that have kprobes.
func TestKprobe(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	w := startChild(t)
	symbol := map[string]string{"amd64": "__x64_sys_getppid", "arm64": "__arm64_sys_getppid"}[runtime.GOARCH]
	c := attach(t, probe.Kprobe{Symbol: symbol}, &collect.Options{PIDs: []int{w.cmd.Process.Pid}})
	w.work()
	for _, s := range finish(t, c) {
		if len(s.Kernel.Frames) == 0 || len(s.User.Frames) == 0 {
			t.Errorf("a stack is missing: kernel %+v, user %+v", s.Kernel, s.User)
		}
	}
}

// Without room for the stacks, what is lost is counted.
func TestLossIsCounted(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	clock, err := pmc.ParseEvent("cpu-clock", nil)
	if err != nil {
		t.Fatal(err)
	}
	// By period: kernel.perf_event_max_sample_rate, which bounds frequencies,
	// falls on slow machines.
	c := attach(t, probe.Perf{Event: clock, Period: 200_000}, &collect.Options{MaxStacks: 1, Idle: true, IncludeSelf: true})
	defer c.Close()
	for lost := uint64(0); lost == 0; {
		for range 100 {
			caller()
		}
		stats, err := c.Stats()
		if err != nil {
			t.Fatal(err)
		}
		lost = stats.LostFull
	}
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	samples, n, stats := counted(t, c)
	if len(samples) != 1 || stats.LostFull == 0 || stats.Samples != n+stats.LostFull {
		t.Errorf("%d keys with %d samples, stats %+v: counted + lost must be all", len(samples), n, stats)
	}
	// Of an event at most the kernel's stack and the user's are cut short, as the counter's
	// text says; it said that the counter is of events, of which there were fewer.
	if stats.CutShort > 2*stats.Samples {
		t.Errorf("%d stacks of %d events are cut short", stats.CutShort, stats.Samples)
	}
	t.Logf("%d stacks of %d events are cut short", stats.CutShort, stats.Samples)
}

// The period of a perf event is what a sample stands for.
func TestValueOfPeriod(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	faults, err := pmc.ParseEvent("page-faults", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := attach(t, probe.Perf{Event: faults, Period: 7}, &collect.Options{IncludeSelf: true, Value: "sample_period"})
	defer c.Close()
	const pages = 7 * 64
	mem, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if err := unix.Madvise(mem, unix.MADV_NOHUGEPAGE); err != nil {
		t.Logf("huge pages: %v", err)
	}
	for i := 0; i < len(mem); i += os.Getpagesize() {
		mem[i] = 1
	}
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	samples, err := c.Samples()
	if err != nil {
		t.Fatal(err)
	}
	var mine int64
	for _, s := range samples {
		if s.Value != 7*int64(s.Count) {
			t.Errorf("%d samples stand for %d faults, want 7 each", s.Count, s.Value)
		}
		if s.PID == os.Getpid() {
			mine += s.Value
		}
	}
	// One CPU's count of others' faults may end this process's last round.
	if mine < pages/2 {
		t.Errorf("%d page faults of this process, want about %d", mine, pages)
	}
}

// A field of a tracepoint's record is added up; one that is not there is named.
func TestValueOfField(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracepoint("syscalls", "sys_enter_getppid"))
	target := probe.Tracepoint{Group: "syscalls", Name: "sys_enter_read"}
	_, err := collect.Attach([]probe.Target{target}, &collect.Options{Value: "cuont"})
	if err == nil || !strings.Contains(err.Error(), `"cuont"`) || !strings.Contains(err.Error(), `"count"`) {
		t.Errorf("error %v, want one with the name and the fields that there are", err)
	}
	n := startReader(t)
	n.waitBlocked()
	c := attach(t, target, &collect.Options{PIDs: []int{n.pid}, PerThread: true, Value: "count"})
	n.feed()
	var count uint64
	var sum int64
	for _, s := range n.samplesOf(c) {
		count += s.Count
		sum += s.Value
	}
	st, err := c.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	// A kernel that is preempted in a program of the event passes over it.
	if count > workload+1 || count+st.Missed < workload+1 || sum != readSize*int64(count) {
		t.Errorf("%d reads of %d bytes together, %d missed, want %d of %d each", count, sum, st.Missed, workload+1, readSize)
	}
}

// The walker takes over without losing or doubling an event, or says why not.
func TestLoadWalker(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := startChild(t)
	c := attach(t, probe.Uprobe{Path: exe, Symbol: "github.com/borescope/borescope/stack/collect_test.leaf"},
		&collect.Options{PIDs: []int{w.cmd.Process.Pid}})
	defer c.Close()
	if err := c.LoadWalker(); err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	w.work()
	for _, s := range finish(t, c) {
		if len(s.User.Frames) == 0 || s.User.Frames[0].Source != stack.SourceRegs {
			t.Errorf("user stack %+v, want one of the walker's", s.User)
		}
	}
}

// A stripped shell has no frame pointers; the walker sees its stacks whole.
func TestWalkerSeesWholeStacks(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Tool("sh"))
	sh := testenv.Command(t, "sh", "-c", "while :; do :; done")
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sh.Process.Kill(); sh.Wait() }()
	c := attach(t, probe.Perf{Freq: 999}, &collect.Options{PIDs: []int{sh.Process.Pid}})
	defer c.Close()
	var whole, all uint64
	for _, s := range walkedStacks(t, c, sh.Process.Pid, 300) {
		all += s.count
		if s.Stopped == stack.StopBottom {
			whole += s.count
		}
	}
	if whole < all*99/100 {
		t.Errorf("%d of %d user stacks reach the thread's start, want 99 %%", whole, all)
	}
}

// userStack is a stack and how often it was seen.
type userStack struct {
	stack.Stack
	count uint64
}

// walkedStacks has the walker walk a process and waits for at least so many
// samples. What was counted before the walker knew the process is left out.
func walkedStacks(t *testing.T, c *collect.Collector, pid int, least uint64) []userStack {
	t.Helper()
	if err := c.LoadWalker(); err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	if err := c.AddProcess(pid); err != nil {
		t.Log(err) // the vsyscall page has no file
	}
	before := userStacks(t, c)
	for {
		time.Sleep(10 * time.Millisecond)
		var out []userStack
		var all uint64
		for key, s := range userStacks(t, c) {
			if s.count -= before[key].count; s.count > 0 {
				out = append(out, s)
				all += s.count
			}
		}
		if all >= least {
			return out
		}
	}
}

// userStacks are the user stacks of what was counted so far, by how they print.
func userStacks(t *testing.T, c *collect.Collector) map[string]userStack {
	t.Helper()
	samples, err := c.Samples()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]userStack)
	for _, s := range samples {
		key := fmt.Sprint(s.User)
		out[key] = userStack{s.User, out[key].count + s.Count}
	}
	return out
}

// With Hold nothing is counted before the walker is there, and all by it.
func TestHold(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Tool("sh"))
	sh := testenv.Command(t, "sh", "-c", "while :; do :; done")
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sh.Process.Kill(); sh.Wait() }()
	c := attach(t, probe.Perf{Freq: 999}, &collect.Options{PIDs: []int{sh.Process.Pid}, NoKernel: true, Hold: true})
	defer c.Close()
	time.Sleep(20 * time.Millisecond)
	if samples, err := c.Samples(); err != nil || len(samples) != 0 {
		t.Errorf("%d stacks before LoadWalker, %v", len(samples), err)
	}
	err := c.LoadWalker()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	var all, helper uint64
	for all < 100 {
		time.Sleep(10 * time.Millisecond)
		samples, err := c.Samples()
		if err != nil {
			t.Fatal(err)
		}
		all, helper = 0, 0
		for _, s := range samples {
			all += s.Count
			if s.User.Stopped == stack.StopUnknown {
				helper += s.Count
			}
		}
	}
	if err == nil && helper > 0 {
		t.Errorf("%d of %d samples were not walked", helper, all)
	}
}

func TestAttachErrors(t *testing.T) {
	for name, o := range map[string]*collect.Options{
		"no stacks":    {NoKernel: true, NoUser: true},
		"negative":     {MaxStacks: -1},
		"bad process":  {PIDs: []int{0}},
		"bad process2": {PIDs: []int{1, -5}},
	} {
		if _, err := collect.Attach([]probe.Target{probe.Perf{Freq: 99}}, o); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := collect.AttachWaits(collect.OffCPU, &collect.WaitOptions{Options: *o}); err == nil {
			t.Errorf("waits, %s: no error", name)
		}
	}
	for name, o := range map[string]*collect.WaitOptions{
		"value":        {Options: collect.Options{Value: "x"}},
		"idle":         {Options: collect.Options{Idle: true}},
		"negative":     {Min: -1},
		"empty range":  {Min: 2, Max: 1},
		"no state":     {States: 0x30},
		"not a wakeup": {States: collect.Preempted},
	} {
		if _, err := collect.AttachWaits(collect.Wakeups, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := collect.AttachWaits(0, nil); err == nil {
		t.Error("no kind: no error")
	}
}

// startReturns starts a shell whose stack has a dozen return probes, and returns
// when it is in them.
func startReturns(t *testing.T) (pid int) {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Uprobes, testenv.Tool("bash"))
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bash := filepath.Join(t.TempDir(), "bash") // which nobody else runs
	if err := os.WriteFile(bash, b, 0o755); err != nil {
		t.Fatal(err)
	}
	// The pattern takes seconds to match: a sample should not hit the probe itself.
	sh := testenv.Command(t, bash, "-c", `f() { if (( $1 > 0 )); then f $(( $1 - 1 )); else echo; while :; do [[ $s == +(+(a))b ]]; done; fi; }; shopt -s extglob; printf -v s a%.0s {1..26}; read; f 12`)
	in, out := testenv.Piped(t, sh)
	t.Cleanup(func() { sh.Process.Kill(); sh.Wait() })
	pid = sh.Process.Pid
	returns := attach(t, probe.Uretprobe{Path: bash, Symbol: "execute_command_internal", PID: pid},
		&collect.Options{PIDs: []int{pid}})
	t.Cleanup(func() { returns.Close() })
	in.Write([]byte("go\n"))
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil || !strings.Contains(string(maps), "[uprobes]") {
		t.Fatalf("the shell is in no return probe (%v):\n%s", err, maps)
	}
	return pid
}

// Uretprobes replace return addresses on the stack. The walker finds the true
// ones in the kernel's list, so that stacks under a dozen of them are whole.
func TestWalkerPutsReturnAddressesBack(t *testing.T) {
	pid := startReturns(t)
	c := attach(t, probe.Perf{Freq: 499}, &collect.Options{PIDs: []int{pid}, NoKernel: true})
	defer c.Close()
	var whole, all, frames uint64
	for _, s := range walkedStacks(t, c, pid, 100) {
		all += s.count
		frames += s.count * uint64(len(s.Frames))
		if s.Stopped == stack.StopBottom {
			whole += s.count
		}
	}
	if whole < all*99/100 || frames < 12*3*all {
		t.Errorf("%d of %d stacks, of %d frames each, reach the thread's start; want 99 %% of them, of 36 frames or more",
			whole, all, frames/all)
	}
}
