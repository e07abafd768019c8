package collect

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/symbol"
	"github.com/borescope/borescope/symbol/lifecycle"
)

// Watch looks at processes when they are first sampled, in goroutines of its own, until stop is
// called: processes reads their mappings, so that their addresses have names after they ended,
// and the walker, which it loads if LoadWalker was not called before, gets the rules for their
// files. What they map and execute later both learn from the kernel's records about all processes
// (lifecycle.Follow); where these are not to be had, from reading their mappings again. stop returns
// the error with which watching ended before, if it did.
//
// Where the walker can't be loaded, stacks are walked by frame pointers, and unwalked is called
// with the reason, once and before stop returns; nil stands for a function that does nothing.
// Call neither LoadWalker nor AddProcess, nor read from Processes, before stop has returned, and
// call stop before Detach and Close. processes is borrowed.
func (c *Collector) Watch(processes *symbol.Processes, unwalked func(error)) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{
		c: c, processes: processes, unwalked: unwalked, first: c.first,
		pids: make(chan int, 1<<14), queued: make(map[int]bool), walked: make(map[int]bool),
	}
	f, err := lifecycle.Follow(processes, w.changed)
	if err == nil { // else mappings are read again when they are old
		c.follower.Store(f)
	}
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	return func() error {
		cancel()
		c.follower.Store(nil)
		return errors.Join(<-done, f.Close())
	}
}

type watcher struct {
	c         *Collector
	processes *symbol.Processes
	unwalked  func(error)
	first     mapx.Source
	pids      chan int // for the walker

	mu     sync.Mutex
	queued map[int]bool // guarded by mu: what is in pids
	walked map[int]bool // guarded by mu: processes that the walker has; true: that ended
	closed bool         // guarded by mu: pids is
}

// run observes processes when they are first seen.
func (w *watcher) run(ctx context.Context) error {
	walked := make(chan error, 1)
	go func() { walked <- w.walk(ctx) }()
	err := w.observe(ctx)
	w.mu.Lock()
	w.closed = true
	close(w.pids)
	w.mu.Unlock()
	return errors.Join(err, <-walked)
}

func (w *watcher) observe(ctx context.Context) error {
	for rec := (mapx.Record{}); ; {
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
		_ = w.processes.Observe(pid) // frames of an ended process have no names
		w.mu.Lock()
		w.queue(pid)
		w.mu.Unlock()
	}
}

// changed hears what the kernel's records say of a process.
func (w *watcher) changed(ev *symbol.Event) {
	if w.replaced(ev) {
		w.c.raise(ev.PID)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.walked[ev.PID]; !ok {
		return
	}
	switch {
	case ev.Kind == symbol.EventExit:
		w.walked[ev.PID] = true
	case ev.Kind == symbol.EventMmap && !strings.HasPrefix(ev.Path, "/"):
		return // memory has no rules
	}
	w.queue(ev.PID)
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

// queue has the walker look at a process. The caller holds mu.
func (w *watcher) queue(pid int) {
	if w.closed || w.queued[pid] {
		return
	}
	select {
	case w.pids <- pid:
		w.queued[pid] = true
	default: // the queue is full: one more does not matter
	}
}

// walk loads the walker and gives it the processes. The rules of a large program take a while to
// compile, and other processes have to be observed meanwhile.
func (w *watcher) walk(ctx context.Context) error {
	err := w.c.LoadWalker()
	if err != nil && w.unwalked != nil {
		w.unwalked(err)
	}
	for pid := range w.pids {
		w.mu.Lock()
		ended := w.walked[pid]
		delete(w.queued, pid)
		w.walked[pid] = false
		w.mu.Unlock()
		switch {
		case err != nil || ctx.Err() != nil:
		case ended:
			w.c.removeProcess(pid)
		default:
			_ = w.c.AddProcess(pid) // a process that can't be read is walked by frame pointers
		}
		if !w.c.tables.Has(pid) {
			w.mu.Lock()
			delete(w.walked, pid)
			w.mu.Unlock()
		}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
