package probe

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/testenv"
)

// sumTo is 0 + 1 + … + times-1, what add's first argument adds up to.
const sumTo = times * (times - 1) / 2

func TestUprobeCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	n, l := attachCounter(t, mustResolve(t, nil, "uprobe:"+targetPath()+":add"), counting{value: argOffset()})
	w.run()
	expectTally(t, n.read(t, 0), tally{times, sumTo})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w.run()
	expectTally(t, n.read(t, 0), tally{times, sumTo}) // closed: nothing more
}

func TestUretprobeCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	n, _ := attachCounter(t, mustResolve(t, nil, "uretprobe:"+targetPath()+":add"), counting{value: retOffset()})
	w.run()
	expectTally(t, n.read(t, 0), tally{times, sumTo + times*1000})
}

func TestUprobePID(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	a, b := startTarget(t), startTarget(t)
	n, _ := attachCounter(t, mustResolve(t, nil, fmt.Sprintf("uprobe::add pid=%d", a.pid())), counting{value: -1})
	a.run()
	b.run()
	a.run()
	expectTally(t, n.read(t, 0), tally{Count: 2 * times})
}

func TestUprobeMulti(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.UprobeMulti)
	w := startTarget(t)
	plan := mustResolve(t, nil, "uprobe:"+targetPath()+":helper_*")
	if len(plan.Programs) != 1 || plan.Programs[0].Method != MethodUprobeMulti || len(plan.Programs[0].Sites) != 2 {
		t.Fatalf("two functions make\n%s", plan)
	}
	n, l := attachCounter(t, plan, counting{value: argOffset(), sites: true})
	w.run()
	expectTally(t, n.read(t, 0), tally{times, sumTo})
	expectTally(t, n.read(t, 1), tally{times, sumTo})
	if got := len(l.Sites()); got != 2 {
		t.Errorf("%d sites", got)
	}
}

// TestUprobeSingles: the same functions by one perf event each, as on kernels
// without uprobe.multi.
func TestUprobeSingles(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	plan := mustResolve(t, &Options{NoMulti: true}, "uprobe:"+targetPath()+":helper_*")
	n, _ := attachCounter(t, plan, counting{value: argOffset(), sites: hasCookies()})
	w.run()
	if hasCookies() {
		expectTally(t, n.read(t, 0), tally{times, sumTo})
		expectTally(t, n.read(t, 1), tally{times, sumTo})
	} else {
		expectTally(t, n.read(t, 0), tally{2 * times, 2 * sumTo})
	}
}

func TestUretprobeNested(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	n, _ := attachCounter(t, mustResolve(t, nil, "uretprobe:"+targetPath()+":nested"), counting{value: retOffset()})
	w.run()
	expectTally(t, n.read(t, 0), tally{4 * times, (0 + 1 + 2 + 3) * times})
}

func TestUprobeLine(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	n, _ := attachCounter(t, mustResolve(t, nil, fmt.Sprintf("uprobe:%s:target.c:%d", targetPath(), lineOf(t, "watched = i;"))), counting{value: -1})
	w.run()
	expectTally(t, n.read(t, 0), tally{Count: times})
}

func TestTracepointCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	w := startTarget(t)
	// Offset 8 is __syscall_nr, an int with 4 bytes of padding before the args.
	plan := mustResolve(t, nil, "tracepoint:syscalls:sys_enter_getppid")
	n, _ := attachCounter(t, plan, counting{pid: w.pid(), value: -1})
	w.run()
	expectTally(t, n.read(t, 0), tally{Count: times})
}

func TestTracepointSet(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	w := startTarget(t)
	plan := mustResolve(t, nil, "tracepoint:syscalls:sys_enter_getppid,tracepoint:syscalls:sys_enter_write")
	n, _ := attachCounter(t, plan, counting{pid: w.pid(), value: -1})
	w.run()
	expectTally(t, n.read(t, 0), tally{Count: times + 1})
}

func TestRawTracepointCounts(t *testing.T) {
	testenv.Need(t, testenv.Root)
	w := startTarget(t)
	plan := mustResolve(t, &Options{NoTypes: true}, "rawtracepoint:sys_enter")
	// args[1] is the system call's number.
	n, _ := attachCounter(t, plan, counting{pid: w.pid(), value: 8, filter: 8, equal: getppid()})
	w.run()
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
	want := tally{times, times * uint64(getppid())}
	if got.leftOut(want, missed) {
		want = tally{got.Count, got.Count * uint64(getppid())}
	}
	expectTally(t, got, want)
}

func TestKprobeCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	w := startTarget(t)
	plan := mustResolve(t, nil, "kprobe:"+getppidFunc())
	n, _ := attachCounter(t, plan, counting{pid: w.pid(), value: -1})
	w.run()
	expectTally(t, n.read(t, 0), tally{Count: times})
	w.run()
	expectTally(t, n.read(t, 0), tally{Count: 2 * times})
}

func TestKretprobeCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	w := startTarget(t)
	for _, more := range []string{"", " maxactive=16"} {
		target := "kretprobe:" + getppidFunc() + more
		t.Run(target, func(t *testing.T) {
			if mustParse(t, target).(Kretprobe).MaxActive > 0 {
				testenv.Need(t, testenv.Tracefs)
			}
			n, _ := attachCounter(t, mustResolve(t, nil, target), counting{pid: w.pid(), value: retOffset()})
			w.run()
			expectTally(t, n.read(t, 0), tally{times, times * uint64(os.Getpid())})
		})
	}
}

func TestFentryFexitCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Fentry)
	w := startTarget(t)
	parent := uint64(os.Getpid())
	for _, c := range []struct {
		target string
		value  int16
		want   tally
	}{
		{"fentry:" + getppidFunc(), -1, tally{Count: times}},
		{"fexit:" + getppidFunc(), 8, tally{times, times * parent}},
		// ksys_write(fd, buf, count): the third argument is 1, and so is the result.
		{"fentry:ksys_write", 16, tally{}},
		{"fexit:ksys_write", 24, tally{}},
	} {
		t.Run(c.target, func(t *testing.T) {
			n, _ := attachCounter(t, mustResolve(t, nil, c.target), counting{pid: w.pid(), value: c.value})
			w.run()
			if c.want.Count > 0 {
				expectTally(t, n.read(t, 0), c.want)
				return
			}
			w.waitBlocked() // its write is over
			w.run()
			expectWrites(t, n.read(t, 0))
		})
	}
}

func TestTPBTFCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.TPBTF)
	w := startTarget(t)
	plan := mustResolve(t, &Options{PreferBTF: true}, "rawtracepoint:sys_enter")
	if plan.Programs[0].Type != ebpf.Tracing {
		t.Fatalf("no tracing program:\n%s", plan)
	}
	n, _ := attachCounter(t, plan, counting{pid: w.pid(), value: 8, filter: 8, equal: getppid()})
	w.run()
	expectGetppids(t, n)
}

func TestKprobeMultiCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.KprobeMulti)
	w := startTarget(t)
	plan := mustResolve(t, nil, "kprobe:ksys_write,kprobe:ksys_read,kprobe:ksys_write")
	if plan.Programs[0].Method != MethodKprobeMulti {
		t.Fatalf("several functions make\n%s", plan)
	}
	w.waitBlocked() // its first read has begun, and is not counted
	n, _ := attachCounter(t, plan, counting{pid: w.pid(), value: -1, sites: true})
	w.run()
	// The answer comes before the next read. Waiting for that by looking at the
	// map could keep the program from running: a CPU in the map system call runs none.
	w.waitBlocked()
	expectTally(t, n.read(t, 0), tally{Count: 1})
	expectTally(t, n.read(t, 1), tally{Count: 1})
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
	n, l := attachCounter(t, mustResolve(t, nil, target), counting{value: -1})
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
	n, _ := attachCounter(t, mustResolve(t, nil, fmt.Sprintf("software:page-faults:1 pid=%d", selfPID())), counting{value: -1})
	fault(t, times)
	// The runtime's own faults come on top.
	if got := n.read(t, 0).Count; got < times || got > times+200 {
		t.Errorf("counted %d faults, want %d and a few", got, times)
	}
}

func TestWatchpointCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Watchpoint)
	w := startTarget(t)
	addr := symbolValue(t, "watched")
	plan := mustResolve(t, nil, fmt.Sprintf("watchpoint:%#x:8:w pid=%d", addr, w.pid()))
	n, _ := attachCounter(t, plan, counting{value: -1})
	w.run()
	expectTally(t, n.read(t, 0), tally{Count: times})
}

func TestBeginEnd(t *testing.T) {
	testenv.Need(t, testenv.Root)
	plan := mustResolve(t, nil, "begin", "end")
	n := loadCounter(t, plan, counting{value: -1})
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	expectTally(t, n.read(t, 0), tally{Count: 1})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	expectTally(t, n.read(t, 0), tally{Count: 2})
}

func TestSocketFilter(t *testing.T) {
	testenv.Need(t, testenv.Root)
	plan := mustResolve(t, nil, "socket:lo")
	n, l := attachCounter(t, plan, counting{value: -1})
	sendDatagrams(t, times)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// On loopback a packet is seen twice: going out and coming in. Others may send.
	if got := n.read(t, 0).Count; got < 2*times {
		t.Errorf("saw %d packets, want at least %d", got, 2*times)
	}
}

// TestAttachForeign: a program from elsewhere, attached by its type.
func TestAttachForeign(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	plan := mustResolve(t, nil, "uprobe:"+targetPath()+":add")
	n := loadCounter(t, plan, counting{value: -1})
	prog := n.progs[plan.Programs[0].Name]
	l, err := AttachAll(prog, []Target{
		Uprobe{Path: targetPath(), Symbol: "add"},
		Uprobe{Path: targetPath(), Symbol: "helper_one"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.run()
	expectTally(t, n.read(t, 0), tally{Count: 2 * times})
	if _, err := Attach(prog, RawTracepoint{Name: "sys_enter"}, nil); err == nil {
		t.Error("a kprobe program was attached to a raw tracepoint")
	}
}
