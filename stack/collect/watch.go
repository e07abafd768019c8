package collect

import (
	"context"
	"errors"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/symbol"
)

// Watch looks at processes when they are first sampled, in goroutines of its own, until stop is
// called: processes reads their mappings, so that their addresses have names after they ended,
// and the walker, which it loads if LoadWalker was not called before, gets the rules for their
// files. stop returns the error with which watching ended before, if it did.
//
// Where the walker can't be loaded, stacks are walked by frame pointers, and unwalked is called
// with the reason, once and before stop returns; nil stands for a function that does nothing.
// Call neither LoadWalker nor AddProcess, nor read from Processes, before stop has returned, and
// call stop before Detach and Close. processes is borrowed.
func (c *Collector) Watch(processes *symbol.Processes, unwalked func(error)) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{
		c: c, processes: processes, unwalked: unwalked, first: c.first,
		pids: make(chan int, 1<<14),
	}
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

type watcher struct {
	c         *Collector
	processes *symbol.Processes
	unwalked  func(error)
	first     mapx.Source
	pids      chan int // for the walker
}

// run observes processes when they are first seen.
func (w *watcher) run(ctx context.Context) error {
	walked := make(chan error, 1)
	go func() { walked <- w.walk(ctx) }()
	err := w.observe(ctx)
	close(w.pids)
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
		select {
		case w.pids <- pid:
		default: // the queue is full: one more does not matter
		}
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
		if err == nil && ctx.Err() == nil {
			_ = w.c.AddProcess(pid) // a process that can't be read is walked by frame pointers
		}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
