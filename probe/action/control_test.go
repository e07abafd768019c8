//go:build linux

package action_test

import (
	"context"
	"flag"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// mark is a system call number that does not exist: only this process and those
// that it starts make it, while other runs of these tests make others. It is odd,
// whatever the process's number is.
var mark = func() uintptr {
	const env = "ACTION_MARK"
	n, err := strconv.ParseUint(os.Getenv(env), 10, 31)
	if err != nil {
		n = 1<<24 | uint64(os.Getpid())<<1 | 1
		_ = os.Setenv(env, strconv.FormatUint(n, 10))
	}
	return uintptr(n)
}()

// marks makes n of them.
func marks(n int) {
	for range n {
		_, _, _ = syscall.RawSyscall(mark, 0, 0, 0)
	}
}

// marked is a program that does body at this test's marks.
func marked(name string, body func(c *action.Ctx)) *action.Program {
	p := action.NewProgram(name)
	p.IncludeSelf = true
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		c.ReturnUnless(c.Arg(1).Eq(mark))
		body(c)
	})
	return p
}

func attach(t *testing.T, p *action.Program) *action.Session {
	t.Helper()
	testenv.Need(t, testenv.Root)
	s, err := action.Attach(p, &action.Options{Env: thisMachine()})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestOwnProcessIsLeftOut: without IncludeSelf this process's events do not
// count, those of a child do.
func TestOwnProcessIsLeftOut(t *testing.T) {
	if os.Getenv("ACTION_MARKS") != "" {
		marks(23)
		return
	}
	n := action.NewCount("n")
	p := marked("self", func(c *action.Ctx) { n.Inc(c) })
	p.IncludeSelf = false
	s := attach(t, p)
	marks(100)
	cmd := testenv.Command(t, os.Args[0], "-test.run", "^TestOwnProcessIsLeftOut$")
	cmd.Env = append(os.Environ(), "ACTION_MARKS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := total(t, s, n); got != 23 {
		t.Errorf("counted %d, want the child's 23", got)
	}
}

// TestSwitch: one write disables, another enables; nothing is detached.
func TestSwitch(t *testing.T) {
	n := action.NewCount("n")
	s := attach(t, marked("switch", func(c *action.Ctx) {
		n.Inc(c)
		c.Exit(0)
	}))
	marks(23)
	if err := s.SetDisabled(true); err != nil {
		t.Fatal(err)
	}
	marks(1000)
	if err := s.SetDisabled(false); err != nil {
		t.Fatal(err)
	}
	marks(23)
	if got := total(t, s, n); got != 46 {
		t.Errorf("counted %d, want 46", got)
	}
	if exit, err := s.ExitRequested(); err != nil || !exit {
		t.Errorf("exit requested: %v, %v", exit, err)
	}
}

// TestSumsAreExact: eight threads on all CPUs add to the same keys.
func TestSumsAreExact(t *testing.T) {
	sum := action.NewSum[uint32]("sum", 8)
	stats := action.NewStats[action.None]("stats", 1)
	shared := action.NewHash[uint32, uint64]("shared", 8)
	s := attach(t, marked("sums", func(c *action.Ctx) {
		sum.Observe(c, 3, 1)
		stats.Observe(c, c.Nsecs().And(1023))
		shared.Add(c, 1, 3)
	}))
	const threads, calls = 8, 20000
	parallel(threads, func(int) { marks(calls) })
	st, err := stats.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	ss, err := st.Snapshot()
	if err != nil || len(ss.Entries) != 1 || ss.Entries[0].Value.Max > 1023 {
		t.Fatalf("stats %v, %v", ss, err)
	}
	ran := ss.Entries[0].Value.Count
	checkRan(t, s, ran, threads*calls)
	tab, err := sum.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil || len(snap.Entries) != 1 || snap.Entries[0].Value != 3*int64(ran) {
		t.Errorf("sum %v, %v; want %d", snap, err, 3*ran)
	}
	ht, err := shared.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	hs, err := ht.Snapshot()
	if err != nil || len(hs.Entries) != 1 || hs.Entries[0].Value != 3*ran {
		t.Errorf("shared %v, %v; want %d", hs, err, 3*ran)
	}
}

// TestExtremesAreExact: eight threads on all CPUs observe values that nobody else
// has, on every kernel: what is kept are the least and the greatest of them. The
// first and the last time of each CPU, whose programs come one after the other
// there, say which those are.
func TestExtremesAreExact(t *testing.T) {
	least, most := action.NewMin[action.None]("least", 1), action.NewMax[uint32]("most", 8)
	both := action.NewStats[uint32]("both", 8)
	first, last := action.NewArray[int64]("first", 256), action.NewArray[int64]("last", 256)
	s := attach(t, marked("extremes", func(c *action.Ctx) {
		now := c.Nsecs().As(ir.Int64Type())
		c.If(first.Get(c, c.CPU()).Eq(0), func() { first.Set(c, c.CPU(), now) })
		last.Set(c, c.CPU(), now)
		least.Observe(c, now)
		most.Observe(c, now, 7)
		both.Observe(c, c.Const(0).Sub(now), 7)
	}))
	parallel(8, func(int) { marks(4000) })
	lo, hi := int64(math.MaxInt64), int64(0)
	for _, v := range values(t, s, first.Table) {
		if v != 0 {
			lo = min(lo, v)
		}
	}
	for _, v := range values(t, s, last.Table) {
		hi = max(hi, v)
	}
	if l, m := values(t, s, least.Table)[action.None{}], values(t, s, most.Table)[7]; l != lo || m != hi || lo >= hi {
		t.Errorf("least %d and greatest %d, want %d and %d", l, m, lo, hi)
	}
	if st := values(t, s, both.Table)[7]; st.Min != -hi || st.Max != -lo {
		t.Errorf("negative: %d to %d, want %d to %d", st.Min, st.Max, -hi, -lo)
	}
}

// values are a table's values by key.
func values[K comparable, V any](t *testing.T, s *action.Session, open func(bpf.Reader) (mapx.Table[K, V], error)) map[K]V {
	t.Helper()
	tab, err := open(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	out := map[K]V{}
	for _, e := range snap.Entries {
		out[e.Key] = e.Value
	}
	return out
}

// checkRan checks that the program ran for each call, but for those that the
// kernel says it left out: since 6.13 system call tracepoints can be preempted,
// and a program is not entered twice on a CPU.
func checkRan(t *testing.T, s *action.Session, ran, calls uint64) {
	t.Helper()
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if ran > calls || ran+st.Missed < calls {
		t.Errorf("ran %d times and was left out %d times for %d calls", ran, st.Missed, calls)
	}
}

func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f(i)
		})
	}
	wg.Wait()
}

// TestMapPressure: what does not fit a map is counted, and counted only once:
// seen and lost together are what was produced.
func TestMapPressure(t *testing.T) {
	n := action.NewCounter[uint64]("n", 64)
	seq := action.NewCell[uint64]("seq")
	s := attach(t, marked("full", func(c *action.Ctx) {
		seq.Add(c, nil, 1)
		n.Inc(c, seq.Get(c, nil).Mod(1000))
	}))
	marks(10000)
	seen := total(t, s, n)
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if seen+st.Full != 10000 || st.Full == 0 || seen == 0 {
		t.Errorf("seen %d, lost %d, produced 10000", seen, st.Full)
	}
}

// TestEachProbe: a map for what is kept by probe has room for all of the plan's
// probes, and only for them.
func TestEachProbe(t *testing.T) {
	n := action.NewCounter[uint32]("n", ir.EachProbe)
	p := action.NewProgram("each")
	p.IncludeSelf = true
	p.On(probe.Set{probe.RawTracepoint{Name: "sys_enter"}, probe.RawTracepoint{Name: "sys_exit"}}, func(c *action.Ctx) {
		n.Inc(c, c.Probe())
	})
	s := attach(t, p)
	marks(23)
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(st.Maps, func(m bpf.MapStats) bool { return m.Name == "n" })
	if i < 0 || st.Maps[i].Capacity != 2 || st.Full != 0 {
		t.Errorf("%+v", st)
	}
	table, err := n.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := table.Snapshot()
	if err != nil || len(snap.Entries) != 2 {
		t.Errorf("%+v, %v", snap.Entries, err)
	}
}

// TestEachProbeOfArray: an array has all of its keys, so its size must be known.
func TestEachProbeOfArray(t *testing.T) {
	a := action.NewArray[uint64]("a", ir.EachProbe)
	p := action.NewProgram("array")
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) { a.Set(c, c.Probe(), 1) })
	if err := bpf.Validate(p.Program); err == nil || !strings.Contains(err.Error(), "map a") {
		t.Errorf("error %v", err)
	}
}

type numbered struct {
	CPU uint32
	_   uint32
	Seq uint64
}

var flagEvents = flag.Int("events", 200_000, "events of the floods")

// TestEventsAreSeenOrLost floods a small ring from all CPUs. With -events
// 10000000 it takes half a minute.
func TestEventsAreSeenOrLost(t *testing.T) {
	t.Run("ring", func(t *testing.T) { flood(t, action.NewEvents[numbered]("ev", 64<<10)) })
	t.Run("perf", func(t *testing.T) { flood(t, action.NewEvents[numbered]("ev", 64<<10).UsePerfBuffer()) })
}

func flood(t *testing.T, ev *action.Events[numbered]) {
	s := attach(t, marked("flood", func(c *action.Ctx) {
		ev.Emit(c, func(e *numbered, b *action.Bind) {
			b.Set(&e.CPU, c.CPU())
			b.Set(&e.Seq, c.Arg(0).Ptr().Load(0, ir.Uint64Type()))
		})
	}))
	r, err := ev.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const threads = 4
	calls := *flagEvents / threads
	ctx, cancel := context.WithCancel(context.Background())
	var seen atomic.Uint64
	done := make(chan struct{})
	go func() {
		defer close(done)
		var e numbered
		for {
			if _, err := r.Read(ctx, &e); err != nil {
				return
			}
			seen.Add(1)
		}
	}()
	parallel(threads, func(int) { marks(calls) })
	for last := uint64(0); ; { // until the reader has what is buffered
		time.Sleep(200 * time.Millisecond)
		n := seen.Load()
		if n == last {
			break
		}
		last = n
	}
	cancel()
	<-done
	n := seen.Load()
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	checkRan(t, s, n+st.Full, uint64(threads*calls))
	t.Logf("produced %d, seen %d, lost %d", threads*calls, n, st.Full)
}

// TestBudget: events beyond the budget of a second are counted, not emitted.
func TestBudget(t *testing.T) {
	ev := action.NewEvents[numbered]("ev", 1<<20)
	p := marked("budget", func(c *action.Ctx) { ev.Emit(c, func(*numbered, *action.Bind) {}) })
	p.Budget.EventsPerSecond = 50
	s := attach(t, p)
	pinned(t, func() { marks(1000) })
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	// The calls take far less than a second, but may lie in two of them.
	if st.Limited < 900 || st.Limited > 950 {
		t.Errorf("limited %d of 1000 with a budget of 50", st.Limited)
	}
	p = marked("cpu", func(c *action.Ctx) {
		v := c.NewVar(0)
		c.Loop(2000, 2000, func(i action.Int) { v.Set(v.Int().Mul(31).Add(i)) })
		c.If(v.Int().Eq(1), func() { c.Exit(0) })
	})
	p.Budget.CPUPercent = 1
	s = attach(t, p)
	pinned(t, func() {
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
			marks(100)
		}
	})
	if st, err = s.Stats(); err != nil || st.Throttled == 0 {
		t.Errorf("throttled %d, %v", st.Throttled, err)
	}
	p.Budget = ir.Budget{MapBytes: 4096}
	if _, err := action.Attach(marked("bytes", func(c *action.Ctx) { ev.Emit(c, func(*numbered, *action.Bind) {}) }), nil); err != nil {
		t.Errorf("no budget: %v", err)
	}
}

func pinned(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		t.Fatal(err)
	}
	set.Set(0)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &old) }()
	f()
}

// TestSummariesAreNotTorn reads averages while they are updated: of values that
// are all 3, count and sum must fit at every moment.
func TestSummariesAreNotTorn(t *testing.T) {
	avg := action.NewAvg[uint32]("avg", 8)
	stats := action.NewStats[action.None]("stats", 1)
	s := attach(t, marked("torn", func(c *action.Ctx) {
		avg.Observe(c, 3, 1)
		stats.Observe(c, 3)
	}))
	ta, err := avg.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	ts, err := stats.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				marks(1000)
			}
		}
	}()
	defer func() { // also where a check fails: other tests count marks too
		close(stop)
		<-done
	}()
	for range 2000 {
		a, err := ta.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		b, err := ts.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range a.Entries {
			if e.Value.Sum != 3*int64(e.Value.Count) {
				t.Fatalf("torn: %+v", e.Value)
			}
		}
		for _, e := range b.Entries {
			if e.Value.Sum != 3*int64(e.Value.Count) || e.Value.Min != 3 || e.Value.Max != 3 {
				t.Fatalf("torn: %+v", e.Value)
			}
		}
	}
}

// TestSettlesLate: a program may stand still in the middle of an update, because
// it is preempted or its CPU is a virtual one that waits for a real one. On
// arm64 6.1 under QEMU the reader gave up then, and returned a sum with one more
// value than the count.
func TestSettlesLate(t *testing.T) {
	avg := action.NewAvg[uint32]("avg", 8)
	s := attach(t, marked("late", func(c *action.Ctx) { avg.Observe(c, 3, 1) }))
	tab, err := avg.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	type value struct{ Done, Sum, Begun uint64 }
	raw, err := mapx.NewPerCPU[uint32, value](s.EBPFMap(avg.Map()))
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Put(1, []value{{Done: 1, Sum: 6, Begun: 2}}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		time.Sleep(50 * time.Millisecond) // far longer than reading again a hundred times takes
		done <- raw.Put(1, []value{{Done: 2, Sum: 6, Begun: 2}})
	}()
	snap, err := tab.Snapshot()
	if putErr := <-done; putErr != nil {
		t.Fatal(putErr)
	}
	if err != nil || len(snap.Entries) != 1 || snap.Entries[0].Value.Count != 2 {
		t.Errorf("%+v, %v; want a count of 2", snap, err)
	}
}

// TestScratchIsNotShared runs programs with large keys on the same CPUs, in
// system calls and in timer interrupts: a program that found another's scratch
// area would store a key with parts of both.
func TestScratchIsNotShared(t *testing.T) {
	type key struct{ A, B [32]uint64 }
	seen := action.NewHash[key, uint64]("seen", 4096)
	p := marked("scratch", func(c *action.Ctx) { seen.Add(c, action.Key(c.Kstack(32), c.Kstack(32)), 1) })
	p.On(probe.Perf{Event: pmc.CPUClock(), Period: 50_000}, func(c *action.Ctx) {
		seen.Add(c, action.Key(c.Kstack(32), c.Kstack(32)), 1)
	})
	s := attach(t, p)
	parallel(4, func(int) { marks(30000) })
	if err := s.Detach(); err != nil {
		t.Fatal(err)
	}
	tab, err := seen.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for _, e := range snap.Entries {
		n += e.Value
		// The innermost frame, which 5.10 gives twice, is the program's own, at
		// one call and at the other.
		if !slices.Equal(e.Key.A[2:], e.Key.B[2:]) {
			t.Errorf("a key of two stacks: %x", e.Key)
		}
	}
	st, err := s.Stats()
	// A kernel that is preempted in a program of the event passes over it.
	if err != nil || st.NoScratch != 0 || n+st.Full+st.Programs[0].Missed < 4*30000 {
		t.Errorf("%d events, %+v, %v", n, st, err)
	}
}
