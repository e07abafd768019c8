package collect

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/walking"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/symbol"
	"github.com/borescope/borescope/symbol/lifecycle"
)

// Watch looks at processes when they are first sampled, in goroutines of its own, until stop is
// called: processes reads their mappings, so that their addresses have names after they ended,
// and the walker, which it loads if LoadWalker was not called before, gets the rules for their
// files. What they map and execute later both learn from the kernel's records about all processes
// (lifecycle.Follow); where these are not to be had, from reading their mappings again. Samples whose
// stacks the walker has no rules for yet have them copied, and walked here (Stats.Copied). stop returns
// the error with which watching ended before, if it did.
//
// Where the walker can't be loaded, stacks are walked by frame pointers, and unwalked is called
// with the reason, once and before stop returns; nil stands for a function that does nothing.
// Call neither LoadWalker nor AddProcess, nor read from Processes, before stop has returned, and
// call stop before Detach and Close. processes is borrowed.
func (c *Collector) Watch(processes *symbol.Processes, unwalked func(error)) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{
		c: c, processes: processes, unwalked: unwalked, first: c.first, queue: walking.NewQueue(),
	}
	f, err := lifecycle.Follow(processes, w.changed)
	if err == nil { // else mappings are read again when they are old
		c.follower.Store(f)
	}
	err = c.copied.begin(processes)
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	var walked sync.WaitGroup
	walked.Go(func() { c.copied.run(ctx) })
	walked.Go(func() { c.copied.runWaiting(ctx) })
	return func() error {
		cancel()
		err := errors.Join(err, <-done)
		walked.Wait()
		err = errors.Join(err, c.copied.end())
		c.follower.Store(nil)
		return errors.Join(err, f.Close())
	}
}

type watcher struct {
	c         *Collector
	processes *symbol.Processes
	unwalked  func(error)
	first     mapx.Source
	queue     *walking.Queue
}

// run observes processes when they are first seen.
func (w *watcher) run(ctx context.Context) error {
	walked := make(chan error, 1)
	go func() { walked <- w.walk(ctx) }()
	err := w.observe(ctx)
	w.queue.Close()
	return errors.Join(err, <-walked)
}

// lookEvery is how often first sights, of processes that are followed, and copies of samples by a clock are
// looked at. Each time wakes this process: among programs that end at once every sample would, which takes
// more of their time than looking does.
const lookEvery = 20 * time.Millisecond

// pause waits until it is time to look again.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(lookEvery):
	}
}

// observe has processes be known and the walker look at them. What a process mapped before it is looked at
// is known if processes are followed; else it is looked at while it is there.
func (w *watcher) observe(ctx context.Context) error {
	for rec := (mapx.Record{}); ; {
		before := time.Now()
		if err := w.first.ReadInto(ctx, &rec); err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return err
		}
		pid, _, err := ParseProcess(&rec)
		if err != nil {
			return err
		}
		if waited := time.Since(before) > lookEvery/100; waited && w.c.follower.Load() != nil {
			pause(ctx) // and look at those that come meanwhile, too
		}
		w.c.learn()                  // what came before its mappings are read
		_ = w.processes.Observe(pid) // frames of an ended process have no names
		w.queue.Add(pid)
	}
}

// changed hears what the kernel's records say of a process.
func (w *watcher) changed(ev *symbol.Event) {
	if w.replaced(ev) {
		w.c.raise(ev.PID)
	}
	w.queue.Handle(ev)
}

// replaced reports whether the same addresses may have other names from an event on, so that samples
// from then on are to be counted apart. The programs see themselves when others are executed.
func (w *watcher) replaced(ev *symbol.Event) bool {
	if ev.Kind != symbol.EventMmap {
		return ev.Kind == symbol.EventExec && w.c.filter.lives == nil
	}
	p, err := w.processes.Process(ev.PID)
	return err == nil && p.During(0, ev.Time-1, ev.Time).Changed(ev.Addr)
}

// walk loads the walker and gives it the processes.
func (w *watcher) walk(ctx context.Context) error {
	err := w.c.LoadWalker()
	if err != nil {
		err = errors.Join(err, w.c.setCopying(0)) // every stack would be copied
		if w.unwalked != nil {
			w.unwalked(err)
		}
	}
	w.queue.Run(&untilEnd{w.c, ctx, err})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// untilEnd is the walker of a Collector, until watching ends.
type untilEnd struct {
	c   *Collector
	ctx context.Context
	err error // why there is none
}

func (r *untilEnd) AddProcess(pid int) error {
	if r.err != nil || r.ctx.Err() != nil {
		return r.err
	}
	return r.c.AddProcess(pid)
}

func (r *untilEnd) RemoveProcess(pid int) error {
	if r.err != nil || r.ctx.Err() != nil {
		return r.err
	}
	return r.c.removeProcess(pid)
}

func (r *untilEnd) HasProcess(pid int) bool { return r.c.tables.Has(pid) }
