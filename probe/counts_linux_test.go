package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// sumTo is 0 + 1 + … + times-1, what add's first argument adds up to.
const sumTo = probetest.Times * (probetest.Times - 1) / 2

func TestUprobeCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	n, l := attachCounter(t, mustResolve(t, nil, "uprobe:"+probetest.TargetPath()+":add"), probetest.Counting{Value: probetest.ArgOffset()})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times, Sum: sumTo})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times, Sum: sumTo}) // closed: nothing more
}

func TestUretprobeCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	n, _ := attachCounter(t, mustResolve(t, nil, "uretprobe:"+probetest.TargetPath()+":add"), probetest.Counting{Value: probetest.RetOffset()})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times, Sum: sumTo + probetest.Times*1000})
}

func TestUprobePID(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	a, b := probetest.Start(t), probetest.Start(t)
	n, _ := attachCounter(t, mustResolve(t, nil, fmt.Sprintf("uprobe::add pid=%d", a.PID())), probetest.Counting{Value: -1})
	a.Run()
	b.Run()
	a.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2 * probetest.Times})
}

func TestUprobeMulti(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.UprobeMulti)
	w := probetest.Start(t)
	plan := mustResolve(t, nil, "uprobe:"+probetest.TargetPath()+":helper_*")
	if len(plan.Programs) != 1 || plan.Programs[0].Method != MethodUprobeMulti || len(plan.Programs[0].Sites) != 2 {
		t.Fatalf("two functions make\n%s", plan)
	}
	n, l := attachCounter(t, plan, probetest.Counting{Value: probetest.ArgOffset(), Sites: true})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times, Sum: sumTo})
	probetest.ExpectTally(t, n.read(t, 1), probetest.Tally{Count: probetest.Times, Sum: sumTo})
	if got := len(l.Sites()); got != 2 {
		t.Errorf("%d sites", got)
	}
}

// TestUprobeSingles: the same functions by one perf event each, as on kernels
// without uprobe.multi.
func TestUprobeSingles(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	plan := mustResolve(t, &Options{NoMulti: true}, "uprobe:"+probetest.TargetPath()+":helper_*")
	n, _ := attachCounter(t, plan, probetest.Counting{Value: probetest.ArgOffset(), Sites: probetest.HasCookies()})
	w.Run()
	if probetest.HasCookies() {
		probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times, Sum: sumTo})
		probetest.ExpectTally(t, n.read(t, 1), probetest.Tally{Count: probetest.Times, Sum: sumTo})
	} else {
		probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2 * probetest.Times, Sum: 2 * sumTo})
	}
}

func TestUretprobeNested(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	n, _ := attachCounter(t, mustResolve(t, nil, "uretprobe:"+probetest.TargetPath()+":nested"), probetest.Counting{Value: probetest.RetOffset()})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 4 * probetest.Times, Sum: (0 + 1 + 2 + 3) * probetest.Times})
}

func TestUprobeLine(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	n, _ := attachCounter(t, mustResolve(t, nil, fmt.Sprintf("uprobe:%s:target.c:%d", probetest.TargetPath(), lineOf(t, "watched = i;"))), probetest.Counting{Value: -1})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
}

func TestTracepointCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	w := probetest.Start(t)
	// Offset 8 is __syscall_nr, an int with 4 bytes of padding before the args.
	plan := mustResolve(t, nil, "tracepoint:syscalls:sys_enter_getppid")
	n, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: -1})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
}

func TestTracepointSet(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	w := probetest.Start(t)
	plan := mustResolve(t, nil, "tracepoint:syscalls:sys_enter_getppid,tracepoint:syscalls:sys_enter_write")
	n, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: -1})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times + 1})
}

func TestRawTracepointCounts(t *testing.T) {
	testenv.Need(t, testenv.Root)
	w := probetest.Start(t)
	plan := mustResolve(t, &Options{NoTypes: true}, "rawtracepoint:sys_enter")
	// args[1] is the system call's number.
	n, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: 8, Filter: 8, Equal: getppid()})
	w.Run()
	expectGetppids(t, n)
}

// expectGetppids is for a program of every system call that counts getppid: preempted in
// another task, it is left out on that CPU until that one goes on, which the kernel counts.
func expectGetppids(t *testing.T, n *counter) {
	t.Helper()
	got, missed := n.read(t, 0), n.missed(t)
	if missed > 0 {
		t.Logf("the kernel left out %d calls, all processes' together", missed)
	}
	want := probetest.Tally{Count: probetest.Times, Sum: probetest.Times * uint64(getppid())}
	if got.LeftOut(want, missed) {
		want = probetest.Tally{Count: got.Count, Sum: got.Count * uint64(getppid())}
	}
	probetest.ExpectTally(t, got, want)
}

func TestKprobeCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	w := probetest.Start(t)
	plan := mustResolve(t, nil, "kprobe:"+probetest.GetppidFunc())
	n, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: -1})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2 * probetest.Times})
}

func TestKretprobeCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	w := probetest.Start(t)
	for _, more := range []string{"", " maxactive=16"} {
		target := "kretprobe:" + probetest.GetppidFunc() + more
		t.Run(target, func(t *testing.T) {
			if mustParse(t, target).(Kretprobe).MaxActive > 0 {
				testenv.Need(t, testenv.Tracefs)
			}
			n, _ := attachCounter(t, mustResolve(t, nil, target), probetest.Counting{PID: w.PID(), Value: probetest.RetOffset()})
			w.Run()
			probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times, Sum: probetest.Times * uint64(os.Getpid())})
		})
	}
}

func TestFentryFexitCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Fentry)
	w := probetest.Start(t)
	parent := uint64(os.Getpid())
	for _, c := range []struct {
		target string
		value  int16
		want   probetest.Tally
	}{
		{"fentry:" + probetest.GetppidFunc(), -1, probetest.Tally{Count: probetest.Times}},
		{"fexit:" + probetest.GetppidFunc(), 8, probetest.Tally{Count: probetest.Times, Sum: probetest.Times * parent}},
		// ksys_write(fd, buf, count): the third argument is 1, and so is the result.
		{"fentry:ksys_write", 16, probetest.Tally{}},
		{"fexit:ksys_write", 24, probetest.Tally{}},
	} {
		t.Run(c.target, func(t *testing.T) {
			n, _ := attachCounter(t, mustResolve(t, nil, c.target), probetest.Counting{PID: w.PID(), Value: c.value})
			w.Run()
			if c.want.Count > 0 {
				probetest.ExpectTally(t, n.read(t, 0), c.want)
				return
			}
			w.WaitBlocked() // its write is over
			w.Run()
			probetest.ExpectWrites(t, n.read(t, 0))
		})
	}
}

func TestTPBTFCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.TPBTF)
	w := probetest.Start(t)
	plan := mustResolve(t, &Options{PreferBTF: true}, "rawtracepoint:sys_enter")
	if plan.Programs[0].Type != ebpf.Tracing {
		t.Fatalf("no tracing program:\n%s", plan)
	}
	n, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: 8, Filter: 8, Equal: getppid()})
	w.Run()
	expectGetppids(t, n)
}

func TestKprobeMultiCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.KprobeMulti)
	w := probetest.Start(t)
	plan := mustResolve(t, nil, "kprobe:ksys_write,kprobe:ksys_read,kprobe:ksys_write")
	if plan.Programs[0].Method != MethodKprobeMulti {
		t.Fatalf("several functions make\n%s", plan)
	}
	n, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: -1, Sites: true})
	w.Run()
	// The answer comes before the next read. Waiting for that by looking at the
	// map could keep the program from running: a CPU in the map system call runs none.
	w.WaitBlocked()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 1})
	probetest.ExpectTally(t, n.read(t, 1), probetest.Tally{Count: 1})
}

func TestProfileSamples(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	cpus, err := NewEnv(nil).OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	// The clock's frequency is adjusted as it goes, hence the margin.
	expectTicks(t, "perf:cpu-clock:hz:500", 200*len(cpus), func(d time.Duration) float64 {
		return 1.2 * 500 * d.Seconds() * float64(len(cpus))
	})
}

func TestIntervalFires(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	expectTicks(t, "interval:ms:20", 20, func(d time.Duration) float64 {
		return float64(d/(20*time.Millisecond)) + 1
	})
}

// expectTicks waits until a clock fired as often as wanted, and checks that it
// fired no more often than its period allows. Less often it may: an emulated
// or busy machine comes late, and two ticks that are due at once are one.
func expectTicks(t *testing.T, target string, want int, most func(time.Duration) float64) {
	t.Helper()
	t0 := time.Now()
	n, l := attachCounter(t, mustResolve(t, nil, target), probetest.Counting{Value: -1})
	for n.read(t, 0).Count < uint64(want) {
		if time.Since(t0) > time.Minute {
			t.Fatalf("fired %d times in a minute, want %d", n.read(t, 0).Count, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, limit := n.read(t, 0).Count, most(time.Since(t0))
	if float64(got) > limit {
		t.Errorf("fired %d times, more than the %.0f that its period allows", got, limit)
	}
	time.Sleep(50 * time.Millisecond)
	if now := n.read(t, 0).Count; now != got {
		t.Errorf("fired %d times after it was closed", now-got)
	}
}

func TestSoftwareEventCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	n, _ := attachCounter(t, mustResolve(t, nil, fmt.Sprintf("software:page-faults:1 pid=%d", selfPID())), probetest.Counting{Value: -1})
	fault(t, probetest.Times)
	// The runtime's own faults come on top.
	if got := n.read(t, 0).Count; got < probetest.Times || got > probetest.Times+200 {
		t.Errorf("counted %d faults, want %d and a few", got, probetest.Times)
	}
}

func TestWatchpointCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Watchpoint)
	w := probetest.Start(t)
	addr := symbolValue(t, "watched")
	plan := mustResolve(t, nil, fmt.Sprintf("watchpoint:%#x:8:w pid=%d", addr, w.PID()))
	n, _ := attachCounter(t, plan, probetest.Counting{Value: -1})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
}

func TestBeginEnd(t *testing.T) {
	testenv.Need(t, testenv.Root)
	plan := mustResolve(t, nil, "begin", "end")
	n := loadCounter(t, plan, probetest.Counting{Value: -1})
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 1})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2})
}

func TestSocketFilter(t *testing.T) {
	testenv.Need(t, testenv.Root)
	plan := mustResolve(t, nil, "socket:lo")
	n, l := attachCounter(t, plan, probetest.Counting{Value: -1})
	sendDatagrams(t, probetest.Times)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// On loopback a packet is seen twice: going out and coming in. Others may send.
	if got := n.read(t, 0).Count; got < 2*probetest.Times {
		t.Errorf("saw %d packets, want at least %d", got, 2*probetest.Times)
	}
}

// TestAttachForeign: a program from elsewhere, attached by its type.
func TestAttachForeign(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	plan := mustResolve(t, nil, "uprobe:"+probetest.TargetPath()+":add")
	n := loadCounter(t, plan, probetest.Counting{Value: -1})
	prog := n.progs[plan.Programs[0].Name]
	l, err := Attach(prog, Set{
		Uprobe{Path: probetest.TargetPath(), Symbol: "add"},
		Uprobe{Path: probetest.TargetPath(), Symbol: "helper_one"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2 * probetest.Times})
	if _, err := Attach(prog, RawTracepoint{Name: "sys_enter"}, nil); err == nil {
		t.Error("a kprobe program was attached to a raw tracepoint")
	}
}

// TestFilesOfProcess: with a process, a relative path begins at this process's directory, and
// wildcards alone are the files that it has mapped. Both were errors.
func TestFilesOfProcess(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(dir, w.Path())
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]uint64{
		"uprobe:" + path + ":add":          probetest.Times,
		"uprobe:./" + path + ":add":        probetest.Times,
		"uprobe:*:add":                     probetest.Times,
		"uprobe:*/probetest/testdata*:ad?": 0, // a path: there is none of that name below the directory
		"usdt:target-*:target:twice":       2 * probetest.Times,
	} {
		plan, err := Resolve(nil, []Target{mustParse(t, fmt.Sprintf("%s pid=%d", target, w.PID()))}, nil)
		if want == 0 {
			if err == nil {
				t.Errorf("%s: no error", target)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		n, _ := attachCounter(t, plan, probetest.Counting{Value: -1})
		w.Run()
		if got := n.read(t, 0).Count; got != want {
			t.Errorf("%s: counted %d, want %d", target, got, want)
		}
	}
	if got := names(collect(t, fmt.Sprintf("uprobe:*:helper_* pid=%d", w.PID()), nil)); len(got) != 2 {
		t.Errorf("listed %q", got)
	}
}
