package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/collect/collecthttp"
)

// row is one way to trace.
type row struct {
	name   string
	settle time.Duration
	attach func(*tracing) error
}

func (r row) id() string {
	return strconv.Itoa(slices.IndexFunc(rows, func(o row) bool { return o.name == r.name }))
}

// tracing is what is attached.
type tracing struct {
	calls  func() (uint64, error) // that were seen
	closes []func() error
}

func attach(id string) (*tracing, error) {
	i, err := strconv.Atoi(id)
	if err != nil {
		return nil, err
	}
	t := &tracing{calls: func() (uint64, error) { return 0, nil }}
	if err := rows[i].attach(t); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

func (t *tracing) stop() (err error) {
	for _, c := range slices.Backward(t.closes) {
		err = errors.Join(err, c())
	}
	return err
}

var (
	enter    = probe.Tracepoint{Group: "raw_syscalls", Name: "sys_enter"}
	leave    = probe.Tracepoint{Group: "raw_syscalls", Name: "sys_exit"}
	rawEnter = probe.RawTracepoint{Name: "sys_enter"}
	rawLeave = probe.RawTracepoint{Name: "sys_exit"}
)

// settle is until everything that is done once for sampling has been done.
const settle = 3 * time.Second

var rows = []row{
	{name: "nothing", attach: func(*tracing) error { return nil }},
	{name: "empty, tracepoints", attach: empty(enter, leave)},
	{name: "empty, raw tracepoints", attach: empty(rawEnter, rawLeave)},
	{name: "empty, raw sys_enter", attach: empty(rawEnter)},
	{name: "counts, sys_enter", attach: counts(enter)},
	{name: "counts, raw sys_enter", attach: counts(rawEnter)},
	{name: "times, hash", attach: times(enter, leave)},
	{name: "times, storage", attach: stored(enter)},
	{name: "times, storage, raw sys_enter", attach: stored(rawEnter)},
	{name: "times, storage freed", attach: taken},
	{name: "times, storage, both raw", attach: storedBoth},
	{name: "the same, read each second", attach: read(storedBoth)},
	{name: "events, each read", attach: events},
	{name: "sampling with its pages", settle: settle, attach: sampling},
	{name: "both raw, and sampling", settle: settle, attach: both(storedBoth, sampling)},
}

func both(a, b func(*tracing) error) func(*tracing) error {
	return func(t *tracing) error { return errors.Join(a(t), b(t)) }
}

// read reads what was counted once a second, as a scraper of /metrics would, but more often.
func read(attach func(*tracing) error) func(*tracing) error {
	return func(t *tracing) error {
		if err := attach(t); err != nil {
			return err
		}
		stop, done := make(chan struct{}), make(chan error, 1)
		go func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				if _, err := t.calls(); err != nil {
					done <- err
					return
				}
				select {
				case <-stop:
					done <- nil
					return
				case <-tick.C:
				}
			}
		}()
		t.closes = append(t.closes, func() error { close(stop); return <-done })
		return nil
	}
}

// own keeps the programs to this process.
func own() *action.Options {
	return &action.Options{Resolve: &probe.Options{Filter: &probe.Filter{PIDs: []int{os.Getpid()}}}}
}

// empty attaches programs that do nothing: what the kernel takes for itself.
func empty(targets ...probe.Target) func(*tracing) error {
	return func(t *tracing) error {
		for _, target := range targets {
			kind := ebpf.TracePoint
			if _, raw := target.(probe.RawTracepoint); raw {
				kind = ebpf.RawTracepoint
			}
			prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
				Type: kind, License: "GPL",
				Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
			})
			if err != nil {
				return err
			}
			t.closes = append(t.closes, prog.Close)
			link, err := probe.Attach(prog, target, nil)
			if err != nil {
				return err
			}
			t.closes = append(t.closes, link.Close)
		}
		return nil
	}
}

func (t *tracing) attach(p *action.Program) (*action.Session, error) {
	p.IncludeSelf = true
	s, err := action.Attach(p, own())
	if err == nil {
		t.closes = append(t.closes, s.Close)
	}
	return s, err
}

// id is the number of the call of which an event tells.
func id(c *action.Ctx, target probe.Target) action.Int {
	if _, raw := target.(probe.RawTracepoint); raw {
		return c.Arg(1)
	}
	return c.Field("id")
}

// counts counts calls by number.
func counts(target probe.Target) func(*tracing) error {
	return func(t *tracing) error {
		p, calls := action.NewProgram("calls"), action.NewCounter[int64]("calls", 4096)
		p.On(target, func(c *action.Ctx) { calls.Inc(c, id(c, target)) })
		s, err := t.attach(p)
		if err != nil {
			return err
		}
		t.calls = func() (n uint64, err error) {
			table, err := calls.Table(s)
			if err != nil {
				return 0, err
			}
			snap, err := table.Snapshot()
			for _, e := range snap.Entries {
				n += e.Value
			}
			return n, err
		}
		return nil
	}
}

func (t *tracing) hist(p *action.Program, times *action.Hist[int64]) error {
	s, err := t.attach(p)
	if err != nil {
		return err
	}
	t.calls = func() (n uint64, err error) {
		table, err := times.Table(s)
		if err != nil {
			return 0, err
		}
		snap, err := table.Snapshot()
		for _, e := range snap.Entries {
			for _, b := range e.Value {
				n += b.Count
			}
		}
		return n, err
	}
	return nil
}

// times times calls by number, with the start in a hash by thread.
func times(enter, leave probe.Target) func(*tracing) error {
	return func(t *tracing) error {
		starts := action.NewLRU[uint32, uint64]("starts", 1024)
		times := action.NewHist[int64]("times", 4096)
		p := action.NewProgram("calls")
		p.On(enter, func(c *action.Ctx) { starts.Set(c, c.TID(), c.Nsecs()) })
		p.On(leave, func(c *action.Ctx) {
			starts.Take(c, c.TID(), func(t0 action.Int) { times.Observe(c, c.Nsecs().Sub(t0), id(c, leave)) })
		})
		return t.hist(p, times)
	}
}

// stored is times with the start in storage of the thread, as in the service of collecthttp's
// testdata. At sys_exit a raw tracepoint has no number, so that event is a tracepoint.
func stored(enter probe.Target) func(*tracing) error {
	return func(t *tracing) error {
		starts := action.NewTaskStorage[uint64]("starts")
		times := action.NewHist[int64]("times", 4096)
		p := action.NewProgram("calls")
		p.On(enter, func(c *action.Ctx) { starts.Set(c, c.Nsecs()) })
		p.On(leave, func(c *action.Ctx) {
			t0 := starts.Get(c)
			c.ReturnUnless(t0.Ne(0)) // its sys_enter was not seen
			times.Observe(c, c.Nsecs().Sub(t0), id(c, leave))
			starts.Set(c, 0)
		})
		return t.hist(p, times)
	}
}

// taken is stored with the storage freed at each exit.
func taken(t *tracing) error {
	starts := action.NewTaskStorage[uint64]("starts")
	times := action.NewHist[int64]("times", 4096)
	p := action.NewProgram("calls")
	p.On(rawEnter, func(c *action.Ctx) { starts.Set(c, c.Nsecs()) })
	p.On(leave, func(c *action.Ctx) {
		starts.Take(c, func(t0 action.Int) { times.Observe(c, c.Nsecs().Sub(t0), id(c, leave)) })
	})
	return t.hist(p, times)
}

// begun is what is kept of a call while it lasts.
type begun struct{ At, Call uint64 }

// storedBoth is stored with the number too, so that both events are raw tracepoints.
func storedBoth(t *tracing) error {
	starts := action.NewTaskStorage[begun]("starts")
	times := action.NewHist[int64]("times", 4096)
	p := action.NewProgram("calls")
	p.On(rawEnter, func(c *action.Ctx) { starts.Set(c, action.Key(c.Nsecs(), id(c, rawEnter))) })
	p.On(rawLeave, func(c *action.Ctx) {
		starts.Find(c, func(b action.Int) {
			c.ReturnUnless(b.Elem("At").Ne(0)) // its sys_enter was not seen
			times.Observe(c, c.Nsecs().Sub(b.Elem("At")), b.Elem("Call"))
			starts.Set(c, action.Key(0, 0))
		})
	})
	return t.hist(p, times)
}

// event is a call.
type event struct{ Start, ID uint64 }

// events sends each call to a reader of the process, which is woken for it. The reader's own
// calls are left out, or it would wake itself for ever.
func events(t *tracing) error {
	p, calls := action.NewProgram("calls"), action.NewEvents[event]("calls", 1<<20)
	p.On(enter, func(c *action.Ctx) {
		call := id(c, enter)
		c.If(call.Eq(unix.SYS_EPOLL_PWAIT), func() { c.Return() })
		calls.Emit(c, func(e *event, b *action.Bind) {
			b.Set(&e.Start, c.Nsecs())
			b.Set(&e.ID, call)
		})
	})
	s, err := t.attach(p)
	if err != nil {
		return err
	}
	reader, err := calls.Open(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var n atomic.Uint64
	done := make(chan error, 1)
	go func() {
		for {
			var e event
			if _, err := reader.Read(ctx, &e); err != nil {
				done <- err
				return
			}
			n.Add(1)
		}
	}()
	t.calls = func() (uint64, error) { return n.Load(), nil }
	t.closes = append(t.closes, func() error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return reader.Close()
	})
	return nil
}

// sampling samples this process 49 times a second, for pages.
func sampling(t *tracing) error {
	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: 49}}, &collect.Options{
		PIDs: []int{os.Getpid()}, IncludeSelf: true, Windows: true,
	})
	if err != nil {
		return err
	}
	profiler, err := collect.NewProfiler(c, nil)
	if err != nil {
		return err
	}
	h := collecthttp.New(profiler, nil)
	t.closes = append(t.closes, profiler.Close, h.Close)
	return nil
}
