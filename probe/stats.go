package probe

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// LinkStats is how the attachments of a Link have fared: plain data.
type LinkStats struct {
	// Missed is the number of events that the kernel could not give to a
	// program: kprobes hit while the CPU was in one already, kretprobes beyond
	// their instances. MissedKnown is set where the kernel counts them (6.7).
	Missed      uint64
	MissedKnown bool
	// Recursion is the number of runs that the kernel left out because the
	// same program was running on the CPU (Linux 5.12; 0 before). It need not have
	// been the same task: a tracing program that is preempted in one task misses
	// what others call on that CPU until the task goes on, of all its functions.
	Recursion uint64
	// Runs and Runtime are how often the programs ran and for how long, if
	// kernel.bpf_stats_enabled is set.
	Runs    uint64
	Runtime time.Duration
}

// Stats asks the kernel how the attachments have fared so far. It fails with
// os.ErrClosed after Close.
func (l *Link) Stats() (LinkStats, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s LinkStats
	if l.closed {
		return s, l.errClosed("stats")
	}
	for i := range l.held {
		if !l.held[i].link {
			continue
		}
		n, known, err := l.held[i].missed()
		if err != nil {
			return s, fmt.Errorf("stats: %w", err)
		}
		s.Missed += n
		s.MissedKnown = s.MissedKnown || known
	}
	for _, p := range l.progs {
		st, err := p.Stats()
		if err != nil {
			if errors.Is(err, errors.ErrUnsupported) {
				continue
			}
			return s, fmt.Errorf("stats: %w", err)
		}
		s.Recursion += st.RecursionMisses
		s.Runs += st.RunCount
		s.Runtime += st.Runtime
	}
	return s, nil
}

// Missed returns how many events the attachments missed, as far as the kernel
// counts them: LinkStats.Missed and Recursion together.
func (l *Link) Missed() (uint64, error) {
	s, err := l.Stats()
	return s.Missed + s.Recursion, err
}

// Stopped returns the CPUs, ascending, that were sampled and went offline since, whether
// they came back or not: the kernel ends a CPU's events with it and does not resume
// them (perf_event_exit_cpu, kernel/events/core.c). What is attached anew samples those
// that are back. Events of processes and cgroups are not among them, which go on. It
// fails with os.ErrClosed after Close.
func (l *Link) Stopped() ([]int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, l.errClosed("stopped")
	}
	cpus, err := l.stopped()
	if err != nil {
		return nil, fmt.Errorf("stopped: %w", err)
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// Method returns how a site of the Link (an index into Sites) is attached: what
// the plan said. It is MethodNone for an index that the Link doesn't have, and
// for programs that begin and end run.
func (l *Link) Method(site int) Method {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.held {
		if h := &l.held[i]; site >= h.first && site < h.last {
			return h.method
		}
	}
	return MethodNone
}

// OpenIter starts one pass of the iterator that the Link holds: reading to the
// end runs its program once for every object, and yields what the program
// writes with bpf_seq_write. The caller closes the reader; the Link may be
// closed before. It fails for a Link without an iterator.
func (l *Link) OpenIter() (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, l.errClosed("open iterator")
	}
	return l.openIter()
}
