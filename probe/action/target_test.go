//go:build linux

package action_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// thisMachine is what the tests that don't ask about an Env share, as a program
// does: an emulated guest takes half a second to read the kernel's types.
var thisMachine = sync.OnceValue(func() *probe.Env { return probe.NewEnv(nil) })

// attachOrSkip attaches, and skips where the kernel lacks what it takes.
func attachOrSkip(t *testing.T, p *action.Program, o *action.Options) *action.Session {
	t.Helper()
	testenv.Need(t, testenv.Root)
	with := action.Options{}
	if o != nil {
		with = *o
	}
	if with.Env == nil {
		with.Env = thisMachine()
	}
	s, err := action.Attach(p, &with)
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.SkipUnsupported(t, err)
	}
	if err != nil {
		t.Fatalf("%+v\n%s", err, p)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reads makes n reads of a file by this process, of size bytes each.
func reads(t *testing.T, n, size int) {
	t.Helper()
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, size)
	for range n {
		if _, err := f.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// vfsRead is a program that counts this process's reads of 777 bytes by size,
// at the entry, and their results and time at the return.
func vfsRead(entry, ret probe.Target) (p *action.Program, sizes, rets *action.Counter[int64], pair *action.Pair[uint64], lat *action.Hist[action.None]) {
	sizes, rets = action.NewCounter[int64]("sizes", 64), action.NewCounter[int64]("rets", 64)
	pair, lat = action.NewPair[uint64]("pair", 64), action.NewHist[action.None]("lat", 1)
	p = action.NewProgram("vfsread")
	p.IncludeSelf = true
	p.On(entry, func(c *action.Ctx) {
		c.ReturnUnless(c.PID().Eq(os.Getpid()).And(c.Arg(2).Eq(777)))
		sizes.Inc(c, c.Arg(2))
		pair.Enter(c, c.Nsecs())
	})
	p.On(ret, func(c *action.Ctx) {
		c.ReturnUnless(c.PID().Eq(os.Getpid()).And(c.Ret().Eq(777)))
		pair.Leave(c, func(t0 action.Int) {
			rets.Inc(c, c.Ret())
			lat.Observe(c, c.Nsecs().Sub(t0))
		})
	})
	return p, sizes, rets, pair, lat
}

// TestEntryAndReturn counts 23 reads at the entry and the return of vfs_read,
// by kprobes and by trampolines.
func TestEntryAndReturn(t *testing.T) {
	for _, c := range []struct {
		name       string
		entry, ret probe.Target
	}{
		{"kprobe", probe.Kprobe{Symbol: "vfs_read"}, probe.Kretprobe{Symbol: "vfs_read"}},
		{"fentry", probe.Fentry{Symbol: "vfs_read"}, probe.Fexit{Symbol: "vfs_read"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, sizes, rets, pair, _ := vfsRead(c.entry, c.ret)
			s := attachOrSkip(t, p, nil)
			reads(t, 23, 777)
			if n := total(t, s, sizes); n != 23 {
				t.Errorf("%d entries, want 23", n)
			}
			if n := total(t, s, rets); n != 23 {
				t.Errorf("%d returns, want 23", n)
			}
			if n, err := pair.Missed(s); err != nil || n != 0 {
				t.Errorf("%d missed, %v", n, err)
			}
		})
	}
}

// TestTypedPointers reads through pointers that the verifier knows the type of,
// and does arithmetic on them, which it refuses on such pointers as they are.
func TestTypedPointers(t *testing.T) {
	names := action.NewCounter[[32]byte]("names", 64)
	odd := action.NewCounter[uint64]("odd", 64)
	p := action.NewProgram("typed")
	p.IncludeSelf = true
	body := func(c *action.Ctx) {
		c.ReturnUnless(c.PID().Eq(os.Getpid()).And(c.Arg(2).Eq(777)))
		file := c.Arg(0).Ptr()
		names.Inc(c, file.Member("f_path.dentry").Ptr().Member("d_name.name").Str(32))
		odd.Inc(c, c.Arg(0).Xor(0xff).Shr(60).And(1))
	}
	p.On(probe.Fentry{Symbol: "vfs_read"}, body)
	s := attachOrSkip(t, p, nil)
	reads(t, 23, 777)
	tab, err := names.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil || len(snap.Entries) != 1 {
		t.Fatalf("%v, %v", snap, err)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	e := snap.Entries[0]
	if name := action.Text(e.Key[:]); e.Value != 23 || !strings.HasSuffix(exe, "/"+name) && exe != "/"+name {
		t.Errorf("%d reads of %q, want 23 of %s", e.Value, name, exe)
	}
	if n := total(t, s, odd); n != 23 {
		t.Errorf("%d, want 23", n)
	}
}

// TestRawTracepointTyped reads the task that is switched to, from the raw
// tracepoint's typed arguments.
func TestRawTracepointTyped(t *testing.T) {
	seen := action.NewCounter[action.Comm]("seen", 1024)
	for _, prefer := range []bool{false, true} {
		p := action.NewProgram("switch")
		p.On(probe.RawTracepoint{Name: "sched_switch"}, func(c *action.Ctx) {
			seen.Inc(c, c.ArgNamed("next").Ptr().Member("comm").Str(16))
		})
		s := attachOrSkip(t, p, &action.Options{Resolve: &probe.Options{PreferBTF: prefer}})
		reads(t, 23, 777)
		for range 100 {
			os.Getpid()
		}
		w := make(chan int)
		for range 100 {
			go func() { w <- 1 }()
			<-w
		}
		st, err := s.Stats()
		if err != nil || st.Faults != 0 {
			t.Errorf("%+v, %v", st, err)
		}
		tab, err := seen.Table(s)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := tab.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range snap.Entries {
			if e.Key.String() == "" {
				t.Errorf("a task without a name: %v", e)
			}
		}
		_ = s.Close()
	}
}

// recurse calls itself n times, with frames that make its stack grow. If it is
// asked to, it lets other goroutines run in between, so that it returns on other
// threads than it was called on.
//
//go:noinline
func recurse(n int, yield bool) int {
	var frame [512]byte
	if n == 0 {
		return 1 + int(frame[runtime.NumCPU()%len(frame)])
	}
	if yield {
		runtime.Gosched()
		time.Sleep(time.Microsecond)
	}
	return 1 + recurse(n-1, yield) + int(frame[runtime.NumCPU()%len(frame)])
}

// TestGoroutinesPair pairs recursive calls of goroutines that migrate between
// threads: every return finds its own entry, which kept the call's argument.
//
// A prologue that is asked to let others run begins anew afterwards, and the
// probe on it fires a second time, with the same frame: that is the whole
// difference between how often it fires and how often recurse is called. Stopping
// the world asks every goroutine, again and again.
func TestGoroutinesPair(t *testing.T) {
	const name = "github.com/borescope/borescope/probe/action_test.recurse"
	entries, returns := action.NewCount("entries"), action.NewCount("returns")
	again, wrong := action.NewCount("again"), action.NewCount("wrong")
	ids := action.NewCounter[uint64]("ids", 1024)
	other := action.NewCount("other")
	pair := action.NewPair[uint64]("pair", 4096)
	tids := action.NewPair[uint64]("tids", 4096)
	latest := action.NewHash[uint64, uint64]("latest", 1024) // the frame entered last, by goroutine
	p := action.NewProgram("goroutines")
	p.IncludeSelf = true
	p.On(probe.Uprobe{Path: "/proc/self/exe", Symbol: name}, func(c *action.Ctx) {
		c.If(latest.Get(c, c.Builtin("goid")).Eq(c.Builtin("goframe")), func() { again.Inc(c) }, func() { entries.Inc(c) })
		latest.Set(c, c.Builtin("goid"), c.Builtin("goframe"))
		ids.Inc(c, c.Builtin("goid"))
		pair.Enter(c, c.Arg(0))
		tids.Enter(c, c.TID())
	})
	p.On(probe.Uretprobe{Path: "/proc/self/exe", Symbol: name}, func(c *action.Ctx) {
		latest.Delete(c, c.Builtin("goid"))
		tids.Leave(c, func(tid action.Int) {
			c.If(tid.Ne(c.TID()), func() { other.Inc(c) })
		})
		pair.Leave(c, func(n action.Int) {
			returns.Inc(c)
			c.If(n.Add(1).Ne(c.Ret()), func() { wrong.Inc(c) })
		})
	})
	s := attachOrSkip(t, p, nil)
	const goroutines, depth, rounds = 16, 30, 8
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		var m runtime.MemStats
		for {
			select {
			case <-stop:
				return
			default:
				runtime.ReadMemStats(&m)
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range rounds {
				if recurse(depth, i%rounds == 0) != depth+1 {
					t.Error("wrong result")
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	<-stopped
	const calls = goroutines * (depth + 1) * rounds
	for _, c := range []struct {
		what string
		got  uint64
		want uint64
	}{
		{"entries", total(t, s, entries), calls},
		{"returns", total(t, s, returns), calls},
		{"returns with another call's entry", total(t, s, wrong), 0},
		{"firings at entries", total(t, s, ids), calls + total(t, s, again)},
	} {
		if c.got != c.want {
			t.Errorf("%d %s, want %d", c.got, c.what, c.want)
		}
	}
	if n, err := pair.Missed(s); err != nil || n != 0 {
		t.Errorf("%d missed, %v", n, err)
	}
	tab, err := ids.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil || len(snap.Entries) != goroutines {
		t.Errorf("%d goroutines, %v; want %d", len(snap.Entries), err, goroutines)
	}
	if t.Failed() {
		st, err := s.Stats()
		t.Logf("%+v, %v", st, err)
	}
	t.Logf("%d of %d calls returned on another thread, %d prologues began anew", total(t, s, other), calls, total(t, s, again))
}

// passes is called with a number that the probe in TestPreempted keeps.
//
//go:noinline
func passes(n int) int { return n + runtime.NumCPU() }

// TestPreempted has threads of one CPU run into a probe whose action takes so long
// that they preempt each other in it: what each keeps meanwhile stays its own.
func TestPreempted(t *testing.T) {
	const name = "github.com/borescope/borescope/probe/action_test.passes"
	const threads, calls, turns = 6, 200, 4000
	ended, wrong := action.NewCount("ended"), action.NewCount("wrong")
	p := action.NewProgram("preempted")
	p.IncludeSelf = true
	p.On(probe.Uprobe{Path: "/proc/self/exe", Symbol: name}, func(c *action.Ctx) {
		var kept []action.Int
		for i := range 10 {
			kept = append(kept, c.Let(c.Arg(0).Add(i)))
		}
		sum := c.NewVar(0)
		c.Loop(turns, turns, func(i action.Int) { sum.Set(sum.Int().Add(i)) })
		for i, k := range kept {
			c.If(k.Ne(c.Arg(0).Add(i)), func() { wrong.Inc(c) })
		}
		c.If(sum.Int().Eq(turns*(turns-1)/2), func() { ended.Inc(c) })
	})
	s := attachOrSkip(t, p, nil)
	var wg sync.WaitGroup
	for i := range threads {
		wg.Go(func() {
			pinned(t, func() {
				for range calls {
					passes(1000 * i)
				}
			})
		})
	}
	wg.Wait()
	if n := total(t, s, ended); n != threads*calls {
		t.Errorf("%d ended with their sum, want %d", n, threads*calls)
	}
	if n := total(t, s, wrong); n != 0 {
		t.Errorf("%d values were another's", n)
	}
}
