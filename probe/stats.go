package probe

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// LinkStats are statistics of a Link's attachments. It is plain data.
type LinkStats struct {
	// Missed is the number of events for which the kernel could not run a program: a
	// kprobe was hit while the CPU ran one already, or a kretprobe had no free instance.
	// MissedKnown is set if the kernel counts them (6.7).
	Missed      uint64
	MissedKnown bool
	// Recursion is the number of runs that the kernel skipped because the same program
	// was running on the CPU (Linux 5.12; 0 before). It need not have been the same task:
	// while a tracing program is preempted in one task, it misses the calls of all other
	// tasks on that CPU, in all of its functions, until that task continues.
	Recursion uint64
	// Runs and Runtime are how often and how long the programs ran, if
	// kernel.bpf_stats_enabled is set.
	Runs    uint64
	Runtime time.Duration
}

// Stats returns the attachments' statistics up to now, as the kernel reports them. It
// fails with os.ErrClosed after Close.
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

// Stopped returns the sampled CPUs, ascending, that went offline since the Link was
// attached, whether they came back or not. The kernel ends a CPU's events when it goes
// offline and does not resume them (perf_event_exit_cpu, kernel/events/core.c). A new Link
// samples CPUs that came back. Events of processes and cgroups go on, and are not part of
// the result. Stopped fails with os.ErrClosed after Close.
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

// Method returns how the site with that index in Sites is attached, as the plan has it. It
// is MethodNone for an index that the Link doesn't have, and for programs of begin and end.
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

// OpenIter starts one pass of the iterator that the Link holds. Reading to the end runs
// its program once for every object, and yields what the program writes with
// bpf_seq_write. The caller closes the reader; the Link may be closed before. It fails
// for a Link without an iterator.
func (l *Link) OpenIter() (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, l.errClosed("open iterator")
	}
	return l.openIter()
}
