package bpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
)

// Handover lets versions of a program take over from each other without a gap: all of them are attached,
// and an event counts in one of them, the one that took over last on the CPU. Load them by
// [Compiled.LoadHandover]; a version counts nothing before its [Loaded.TakeOver], and nothing after that of
// the next. Versions may differ in everything, probes included.
//
//	h, err := bpf.NewHandover()
//	old, err := first.LoadHandover(ctx, h) // attach it, and:
//	err = old.TakeOver()
//	next, err := second.LoadHandover(ctx, h) // attach it, too, and:
//	err = next.TakeOver() // what old has counted is final
//
// # What is exact
//
// An event at which both versions have programs counts once where the kernel runs these without preemption:
// kprobes and their returns, and tracepoints on kernels before 7.0. It may preempt threads between the
// programs of trampolines (fentry, fexit), of user probes, of raw tracepoints, and of the tracepoints of
// later kernels: a thread that is preempted just there, while its CPU goes over to the next version, has
// this one event counted twice or not at all. That is one event of one thread for each CPU and takeover at
// most. Threads that do nothing but call had it in one takeover of twenty on Linux 7.2, and in none of 500
// on a kernel that does not preempt itself (preempt=none or voluntary). The same holds for events on CPUs
// that a cpuset keeps from this process.
//
// Timers (profile, interval) are each version's own: the next one's begin when it is attached. So is what a
// version keeps between two events: a return whose entry ran in the earlier version has no entry in the
// next, and neither counts it.
//
// It needs Linux 5.10. A Handover is safe for concurrent use.
type Handover struct {
	turns *kernel.Turns // of the versions' numbers

	mu     sync.Mutex
	last   uint8 // the number of the version that was loaded last; 0 is none's
	closed bool
}

// NewHandover returns a Handover for the versions of one program. The caller closes it, before or after
// them.
func NewHandover() (*Handover, error) {
	turns, err := kernel.NewTurns()
	if err != nil {
		return nil, fmt.Errorf("make handover: %w", err)
	}
	return &Handover{turns: turns}, nil
}

// Close frees the Handover: no further version can be loaded, and none can take over. It may be called again,
// and on nil.
func (h *Handover) Close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	return h.turns.Close()
}

// LoadHandover loads the program as Load does, as the next version of those that h has. Its probes do
// nothing before [Loaded.TakeOver]; what runs once, begin and end, does. Of up to 255 versions that are
// loaded at a time each has its turns.
func (c *Compiled) LoadHandover(ctx context.Context, h *Handover) (*Loaded, error) {
	if h == nil {
		return nil, fmt.Errorf("load %s: no handover", c.prog.Name)
	}
	return c.load(ctx, h)
}

// join makes the programs of a specification those of the next version, and returns its number.
func (h *Handover) join(plan *probe.Plan, spec *ebpf.CollectionSpec) (uint8, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return 0, fmt.Errorf("handover: %w", os.ErrClosed)
	}
	if h.last++; h.last == 0 {
		h.last++
	}
	for i := range plan.Programs {
		g := &plan.Programs[i]
		p := spec.Programs[g.Name]
		if p == nil || g.Method == probe.MethodRun || g.Method == probe.MethodIter {
			continue
		}
		idle := kernel.Idle(g.Type)
		if g.AttachType == ebpf.AttachTraceKprobeSession {
			// Without the entry, none of the return: the cookie would be an earlier call's.
			idle = 1
		}
		var err error
		p.Instructions, err = h.turns.Guard(p.Instructions, h.last, idle)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", g.Place(), err)
		}
	}
	return h.last, nil
}

// TakeOver makes this version the one that counts, on one CPU after the other. When it returns, the others
// count nothing any more, and what they have counted can be read. It runs for a moment on each CPU: some
// 20 µs if it is idle, longer if it is busy.
func (l *Loaded) TakeOver() error {
	if l == nil {
		return fmt.Errorf("take over: %w", errNoProgram)
	}
	fail := func(err error) error { return fmt.Errorf("take over %s: %w", l.prog.Name, err) }
	h := l.handover
	if h == nil {
		return fail(errors.New("it was not loaded with a Handover"))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fail(os.ErrClosed)
	}
	if err := h.turns.Give(l.turn); err != nil {
		return fail(err)
	}
	return nil
}
