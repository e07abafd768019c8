//go:build linux

package action_test

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

type visit struct {
	Count, Last uint64
}

// TestTaskStorage keeps values by thread: 23 marks of each of four threads.
func TestTaskStorage(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.TaskBTF), testenv.BTF)
	calls := action.NewTaskStorage[uint64]("calls")
	visits := action.NewTaskStorage[visit]("visits")
	once := action.NewTaskStorage[uint32]("once")
	counts := action.NewCounter[uint64]("counts", 64)
	found := action.NewCounter[uint64]("found", 64)
	p := marked("storage", func(c *action.Ctx) {
		calls.Add(c, 1)
		counts.Inc(c, calls.Get(c))
		visits.Find(c, func(v action.Int) {
			visits.Set(c, action.Key(v.Elem("Count").Add(1), c.Nsecs()))
		}, func() { visits.Set(c, action.Key(1, 0)) })
		c.If(once.Has(c).Not(), func() { once.Set(c, c.TID()) })
		c.If(once.Get(c).Ne(c.TID()), func() { found.Inc(c, 1) })
		c.If(calls.Get(c).Eq(23), func() {
			calls.Delete(c)
			c.If(calls.Has(c), func() { found.Inc(c, 2) })
			visits.Take(c, func(v action.Int) { found.Inc(c, v.Elem("Count").Add(1000)) })
			c.If(visits.Has(c), func() { found.Inc(c, 3) })
		})
	})
	s := attachOrSkip(t, p, nil)
	parallel(4, func(int) { marks(23) })
	st, err := s.Stats()
	if err != nil || st.Full != 0 || st.Busy != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	// From Linux 6.13 a system call's program may be preempted, and misses the
	// calls that other threads make on its CPU meanwhile. A thread that misses some
	// counts less far.
	made, missed := uint64(4*23), st.Missed
	if missed > 0 && !feature.KernelAtLeast("6.13") {
		t.Errorf("%d calls were missed, which this kernel has no cause for", missed)
	}
	table := tableOf(t, s, counts)
	for k, n := range table {
		made -= n
		if k < 1 || k > 23 || n > 4 || n < 4 && missed == 0 || k > 1 && n > table[k-1] {
			t.Errorf("call %d: %d threads, want 4 or as few as %d, %d missed", k, n, table[k-1], missed)
		}
	}
	if made > missed {
		t.Errorf("%d calls are neither seen nor missed, which were %d", made, missed)
	}
	if made > 0 {
		return
	}
	want := map[uint64]uint64{1023: 4}
	for k, n := range tableOf(t, s, found) {
		if want[k] != n {
			t.Errorf("found %d: %d times", k, n)
		}
		delete(want, k)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

func tableOf[K comparable](t *testing.T, s *action.Session, n *action.Counter[K]) map[K]uint64 {
	t.Helper()
	return values(t, s, n.Table)
}

// TestStorageIsRead reads values of this process's first thread, and of its cgroup.
func TestStorageIsRead(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.TaskBTF), testenv.BTF)
	byTask := action.NewTaskStorage[uint64]("bytask")
	s := attachOrSkip(t, marked("read", func(c *action.Ctx) { byTask.Add(c, 1) }), nil)
	marks(23)
	parallel(2, func(int) { marks(1) })
	sum := uint64(0)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range tasks {
		n := 0
		for _, c := range d.Name() {
			n = 10*n + int(c-'0')
		}
		v, ok, err := byTask.OfThread(s, n)
		if n != os.Getpid() && err != nil {
			continue // before Linux 6.9
		}
		if err != nil || ok != (v > 0) {
			t.Errorf("thread %d: %d, %v, %v", n, v, ok, err)
		}
		sum += v
	}
	if sum > 25 {
		t.Errorf("threads have %d marks, there were 25", sum)
	}
}

// TestCgroupStorage counts this process's marks by its cgroup.
func TestCgroupStorage(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	n := action.NewCgroupStorage[uint64]("n")
	s := attachOrSkip(t, marked("cgroup", func(c *action.Ctx) { n.Add(c, 1) }), nil)
	marks(23)
	if v, ok, err := n.OfCgroup(s, ownCgroup(t)); err != nil || !ok || v != 23 {
		t.Errorf("%d, %v, %v; want 23", v, ok, err)
	}
}

// TestUprobeSession sees entries and returns of a function in one program, with
// what the entry kept, and leaves every other return out.
func TestUprobeSession(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.UprobeSession))
	target := probetest.OwnTarget(t)
	entries, returns := action.NewCount("entries"), action.NewCount("returns")
	wrong := action.NewCount("wrong")
	seq := action.NewCell[uint64]("seq")
	p := action.NewProgram("session")
	p.OnCall(probe.Uprobe{Path: target, Symbol: "add"}, func(c *action.Ctx) {
		entries.Inc(c)
		seq.Add(c, nil, 1)
		c.SetCallCookie(c.Arg(0).Add(c.Arg(1)).As(ir.IntType(4, true)))
		c.If(seq.Get(c, nil).And(1).Eq(0), c.Skip)
	}, func(c *action.Ctx) {
		returns.Inc(c)
		c.If(c.CallCookie().As(ir.IntType(4, true)).Ne(c.Ret().As(ir.IntType(4, true))), func() { wrong.Inc(c) })
	})
	s := attachOrSkip(t, p, nil)
	runTarget(t, target)
	if n := total(t, s, entries); n != 23 {
		t.Errorf("%d entries, want 23", n)
	}
	if n := total(t, s, returns); n != 12 {
		t.Errorf("%d returns, want 12", n)
	}
	if n := total(t, s, wrong); n != 0 {
		t.Errorf("%d returns with another call's cookie", n)
	}
}

// TestKprobeSession does the same with a kernel function.
func TestKprobeSession(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.KprobeSession))
	entries, returns := action.NewCount("entries"), action.NewCount("returns")
	p := action.NewProgram("ksession")
	p.IncludeSelf = true
	p.OnCall(probe.Kprobe{Symbol: "vfs_read"}, func(c *action.Ctx) {
		c.If(c.PID().Ne(os.Getpid()).Or(c.Arg(2).Ne(777)), func() {
			c.Skip()
			c.Return()
		})
		c.SetCallCookie(777)
		entries.Inc(c)
	}, func(c *action.Ctx) {
		c.If(c.CallCookie().Eq(c.Ret()), func() { returns.Inc(c) })
	})
	s := attachOrSkip(t, p, nil)
	reads(t, 23, 777)
	if e, r := total(t, s, entries), total(t, s, returns); e != 23 || r != 23 {
		t.Errorf("%d entries, %d returns, want 23", e, r)
	}
}

// TestFsession: 23 reads by a tracing session, which has the arguments at the
// return too.
func TestFsession(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.Fsession))
	entries, returns := action.NewCount("entries"), action.NewCount("returns")
	p := action.NewProgram("fsession")
	p.IncludeSelf = true
	p.OnCall(probe.Fentry{Symbol: "vfs_read"}, func(c *action.Ctx) {
		c.If(c.PID().Eq(os.Getpid()).And(c.ArgNamed("count").Eq(777)), func() {
			c.SetCallCookie(777)
			entries.Inc(c)
		})
	}, func(c *action.Ctx) {
		mine := c.CallCookie().Eq(c.Ret()).And(c.ArgNamed("count").Eq(c.Ret()))
		c.If(mine, func() { returns.Inc(c) })
	})
	s := attachOrSkip(t, p, nil)
	reads(t, 23, 777)
	if e, r := total(t, s, entries), total(t, s, returns); e != 23 || r != 23 {
		t.Errorf("%d entries, %d returns, want 23", e, r)
	}
	p = action.NewProgram("skips")
	p.OnCall(probe.Fentry{Symbol: "vfs_read"}, func(c *action.Ctx) { c.Skip() }, func(*action.Ctx) {})
	if _, err := action.Attach(p, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("skip: %v", err)
	}
}

// TestCallCookieIsNobodyElses: a call whose entry keeps nothing has 0 at its return,
// not what an earlier session kept on the same thread.
func TestCallCookieIsNobodyElses(t *testing.T) {
	for _, of := range []struct {
		target  probe.Target
		feature feature.Feature
	}{
		{probe.Kprobe{Symbol: "vfs_read"}, feature.KprobeSession},
		{probe.Fentry{Symbol: "vfs_read"}, feature.Fsession},
	} {
		t.Run(of.target.String(), func(t *testing.T) {
			testenv.Need(t, testenv.Root, testenv.Feature(of.feature))
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			session := func(name string, keeps bool) (_ *action.Session, returns, kept *action.Counter[action.None]) {
				returns, kept = action.NewCount("returns"), action.NewCount("kept")
				p := action.NewProgram(name)
				p.IncludeSelf = true
				p.OnCall(of.target, func(c *action.Ctx) {
					if keeps {
						c.SetCallCookie(777)
					}
				}, func(c *action.Ctx) {
					c.ReturnUnless(c.PID().Eq(os.Getpid()).And(c.Ret().Eq(777)))
					returns.Inc(c)
					c.If(c.CallCookie().Ne(0), func() { kept.Inc(c) })
				})
				return attachOrSkip(t, p, nil), returns, kept
			}
			s, returns, kept := session("keeps", true)
			reads(t, 23, 777)
			if r, k := total(t, s, returns), total(t, s, kept); r != 23 || k != 23 {
				t.Errorf("%d returns, %d kept something, want 23", r, k)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, returns, kept = session("keepsnot", false)
			reads(t, 23, 777)
			if r, k := total(t, s, returns), total(t, s, kept); r != 23 || k != 0 {
				t.Errorf("%d returns, want 23; %d kept something, want none", r, k)
			}
		})
	}
}

// TestSessionElsewhere: what needs a session is refused where there is none, and
// whether it is a return is known.
func TestSessionElsewhere(t *testing.T) {
	plan := rawPlan2()
	p := action.NewProgram("elsewhere")
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) { c.Skip() })
	if _, err := bpf.Compile(p.Program, plan); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("skip: %v", err)
	}
	n := action.NewCount("n")
	p = action.NewProgram("elsewhere")
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) { c.If(c.IsReturn(), func() { n.Inc(c) }) })
	spec, err := bpf.Compile(p.Program, plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range spec.Programs["p0"].Instructions {
		if in.Reference() == "n" {
			t.Error("code for a return that never comes")
		}
	}
	if spec.Programs["p0"].Type != ebpf.RawTracepoint {
		t.Error(spec.Programs["p0"].Type)
	}
}
