//go:build linux

package action_test

import (
	"context"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
)

func TestRunqlatLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	start := action.NewHash[uint32, uint64]("start", 10240)
	usecs := action.NewHist[action.None]("usecs", 1)
	byCPU := action.NewStats[uint32]("bycpu", 64)

	p := action.NewProgram("runqlat")
	p.On(probe.Tracepoint{Group: "sched", Name: "sched_wakeup"}, func(c *action.Ctx) {
		start.Set(c, c.Field("pid"), c.Nsecs())
	})
	p.On(probe.Tracepoint{Group: "sched", Name: "sched_switch"}, func(c *action.Ctx) {
		next := c.Field("next_pid")
		start.Take(c, next, func(t0 action.Int) {
			d := c.Nsecs().Sub(t0).Div(1000)
			usecs.Observe(c, d)
			byCPU.Observe(c, d, c.CPU())
		})
	})
	s, err := action.Attach(p, nil)
	if err != nil {
		t.Fatalf("%+v\n%s", err, p)
	}
	defer s.Close()
	time.Sleep(300 * time.Millisecond)
	if err := s.Detach(); err != nil {
		t.Fatal(err)
	}
	tab, err := usecs.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil || len(snap.Entries) != 1 {
		t.Fatalf("%v, %v", snap, err)
	}
	n := uint64(0)
	for _, b := range snap.Entries[0].Value {
		n += b.Count
	}
	st, err := byCPU.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := st.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	m := uint64(0)
	for _, e := range stats.Entries {
		m += e.Value.Count
		if e.Value.Min > e.Value.Max || float64(e.Value.Max) < e.Value.Mean() {
			t.Errorf("%+v", e)
		}
	}
	if n == 0 || n != m {
		t.Errorf("histogram has %d, stats %d", n, m)
	}
}

type openEvent struct {
	PID  uint32
	TID  uint32
	Comm action.Comm
	Path [64]byte
	Ret  int32
	Ok   bool
}

func TestEventsLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	events := action.NewEvents[openEvent]("opens", 0)
	p := action.NewProgram("opens")
	p.IncludeSelf = true
	p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_openat"}, func(c *action.Ctx) {
		c.ReturnUnless(c.PID().Eq(os.Getpid()))
		path := c.Field("filename").Str(64)
		c.ReturnUnless(path.HasPrefix("/nonexistent/"))
		events.Emit(c, func(e *openEvent, b *action.Bind) {
			b.Set(&e.PID, c.PID())
			b.Set(&e.TID, c.TID())
			b.Set(&e.Comm, c.Comm())
			b.Set(&e.Path, path)
			b.Set(&e.Ret, -2)
			b.Set(&e.Ok, path.Contains("needle"))
		})
	})
	s, err := action.Attach(p, nil)
	if err != nil {
		t.Fatalf("%+v\n%s", err, p)
	}
	defer s.Close()
	r, err := events.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 23 {
		_, _ = os.Open("/nonexistent/hay-needle-hay")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for range 23 {
		var e openEvent
		if _, err := r.Read(ctx, &e); err != nil {
			t.Fatal(err)
		}
		if action.Text(e.Path[:]) != "/nonexistent/hay-needle-hay" || e.PID != uint32(os.Getpid()) || e.Ret != -2 || !e.Ok {
			t.Fatalf("%+v", e)
		}
	}
}

// TestPairNested pairs calls that are nested three deep, by raw tracepoint runs
// standing for entry and return: the first argument says which.
func TestPairNested(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	pair := action.NewPair[uint64]("call", 64)
	got := action.NewArray[uint64]("got", 16)
	n := action.NewCell[uint64]("n")
	log := action.NewLog("log", 0)
	p := action.NewProgram("pair")
	p.IncludeSelf = true
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		what, v := c.Arg(0), c.Arg(1)
		c.If(what.Eq(0), func() { pair.Enter(c, v) }, func() {
			pair.Leave(c, func(v action.Int) {
				got.Set(c, n.Get(c, nil), v)
				n.Add(c, nil, 1)
				log.Printf(c, "%s leaves with %d\n", c.Comm(), v)
			})
		})
	})
	l := loadRaw(t, p)
	prog := l.Programs()["p0"]
	// A call is a thread's, and goroutines change theirs.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, step := range [][2]uint64{{0, 11}, {0, 22}, {0, 33}, {1, 0}, {1, 0}, {0, 44}, {1, 0}, {1, 0}, {1, 0}} {
		run(t, prog, step[0], step[1])
	}
	tab, err := got.Table(l)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range snap.Entries {
		if want := [16]uint64{33, 22, 44, 11}[e.Key]; e.Value != want {
			t.Errorf("return %d has %d, want %d", e.Key, e.Value, want)
		}
	}
	if miss, err := pair.Missed(l); err != nil || miss != 1 {
		t.Errorf("%d returns without entry, %v; want 1", miss, err)
	}
	r, err := log.Open(l)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, want := range []string{"33", "22", "44", "11"} {
		var line string
		_, err := r.Read(ctx, &line)
		if err != nil || !strings.HasSuffix(line, "leaves with "+want) || strings.HasPrefix(line, " ") {
			t.Errorf("line %q, %v; want %s", line, err, want)
		}
	}
}

// loadRaw loads a program with one raw tracepoint for test runs with two arguments.
func loadRaw(t *testing.T, p *action.Program) *bpf.Loaded {
	t.Helper()
	l, err := bpf.Load(p.Program, rawPlan2())
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// rawPlan2 is a plan for a raw tracepoint with two arguments.
func rawPlan2() *probe.Plan {
	plan := &probe.Plan{Arch: runtime.GOARCH, Kernel: probe.NewEnv(nil).Release()}
	pp := probe.ProgramPlan{
		Name: "p0", Type: ebpf.RawTracepoint, AttachTo: "sys_enter",
		Context: probe.ContextRawArgs, Method: probe.MethodRun,
	}
	for i := range 2 {
		pp.Args = append(pp.Args, probe.Arg{Loc: probe.Location{Kind: probe.LocationContext, Offset: int64(8 * i), Size: 8}})
	}
	plan.Programs = append(plan.Programs, pp)
	return plan
}

func run(t *testing.T, p *ebpf.Program, args ...uint64) {
	t.Helper()
	var b []byte
	for _, a := range args {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	if _, err := p.Run(&ebpf.RunOptions{Context: b}); err != nil {
		t.Fatal(err)
	}
}

// TestStackCounts: every event is in the counts by stack, whatever the depth of
// the stack, and a stack of this test's system call begins in its handler.
func TestStackCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	stacks := action.NewCounter[[127]uint64]("stacks", 1024)
	user := action.NewCounter[[64]uint64]("user", 1024)
	p := action.NewProgram("stacks")
	p.IncludeSelf = true
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		c.ReturnUnless(c.PID().Eq(os.Getpid()).And(c.Arg(1).Eq(0x7777)))
		stacks.Inc(c, c.Kstack(127))
		user.Inc(c, c.Ustack(64))
	})
	s, err := action.Attach(p, nil)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer s.Close()
	for range 23 {
		_, _, _ = syscall.RawSyscall(0x7777, 0, 0, 0)
	}
	if err := s.Detach(); err != nil {
		t.Fatal(err)
	}
	if n := total(t, s, stacks); n != 23 {
		t.Errorf("%d kernel stacks, want 23", n)
	}
	if n := total(t, s, user); n != 23 {
		t.Errorf("%d user stacks, want 23", n)
	}
	st, err := s.Stats()
	if err != nil || st.Full != 0 || st.NoScratch != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

func total[K comparable](t *testing.T, s bpf.Reader, c *action.Counter[K]) uint64 {
	t.Helper()
	tab, err := c.Table(s)
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
	}
	return n
}
