package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/symbol"
)

// Follower tells a symbol.Processes of everything that happens to the processes of this machine,
// until it is closed. It is safe for concurrent use.
type Follower struct {
	processes *symbol.Processes
	changed   func(*symbol.Event)
	cpus      []int
	stop      context.CancelFunc
	done      chan struct{}

	mu      sync.Mutex
	sampler *pmc.Sampler   // guarded by mu
	rec     pmc.Record     // guarded by mu
	events  []symbol.Event // guarded by mu
	read    uint64         // guarded by mu: until when all records were read
	err     error          // guarded by mu: why it follows no longer
}

// Records are read every 20 ms, and not when they come: an exec has five of 100 bytes, and waking a reader
// for these took a third of the time of a storm of programs. Whoever can't wait calls Sync. A CPU executes
// at most some ten thousand programs in a second, so its ring is not full by then; what is lost in spite of
// that costs reading mappings again.
const (
	followPages = 32
	followEvery = 20 * time.Millisecond
	followBatch = 4096
	// cpusEvery is how often it is seen whether the CPUs are still those that are followed.
	cpusEvery = time.Second
)

// Follow starts to follow the processes of this machine: it opens an event on every CPU for the
// kernel's records about tasks and their code, which cost nothing until a process maps code,
// executes a program or ends. changed is called after each event that changed what is known of a
// process, or that is the end of one, from one goroutine at a time and within some 20 ms; it may be
// nil. The caller closes the Follower; processes is borrowed.
//
// It needs CAP_PERFMON (Linux 5.8) or CAP_SYS_ADMIN, or a kernel.perf_event_paranoid of at most 0.
func Follow(processes *symbol.Processes, changed func(*symbol.Event)) (*Follower, error) {
	online, err := cpus.Online(nil)
	if err != nil {
		return nil, err
	}
	s, err := pmc.OpenSampler(pmc.Dummy(), pmc.Scope{CPUs: online}, pmc.SamplingSpec{
		Task: true, Comm: true, Mmap: true, Time: true, MonotonicTime: true,
	}, &pmc.SamplerOptions{Pages: followPages})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &Follower{
		processes: processes, changed: changed, cpus: online, stop: stop, done: make(chan struct{}), sampler: s,
		read: kernel.Monotonic(),
	}
	processes.Follow(true)
	go f.run(ctx)
	return f, nil
}

// run reads records from time to time.
func (f *Follower) run(ctx context.Context) {
	defer close(f.done)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	seen := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if now.Sub(seen) >= cpusEvery {
				if seen = now; !f.sameCPUs() {
					f.end(errors.New("lifecycle: other CPUs are online than were"))
				}
			}
		}
		if f.Sync() != nil {
			return
		}
	}
}

// sameCPUs reports whether the CPUs are online on which the events are.
func (f *Follower) sameCPUs() bool {
	online, err := cpus.Online(nil)
	return err == nil && slices.Equal(online, f.cpus)
}

// Sync tells of everything that happened until now. The error is why processes are followed no longer;
// after Close it matches os.ErrClosed. A nil Follower, as Follow returns it with an error, has nothing to tell.
func (f *Follower) Sync() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	began := kernel.Monotonic()
	for more := true; more && f.err == nil; {
		more = f.take()
		f.tell()
	}
	f.read = began
	return f.err
}

// take reads a batch of records, and reports whether there may be more. The caller holds mu.
func (f *Follower) take() (more bool) {
	for len(f.events) < followBatch {
		ok, err := f.sampler.TryRead(&f.rec)
		switch {
		case errors.Is(err, os.ErrClosed):
			f.err = err
			return false
		case !ok:
			return false
		case err != nil || f.rec.IsLost():
			f.events = append(f.events, symbol.Event{Kind: symbol.EventLost, Time: f.read})
			continue
		}
		if ev, ok := Event(&f.rec); ok {
			ev.Time = f.rec.ID.Time
			f.events = append(f.events, ev)
		}
	}
	return true
}

// tell tells of a batch in the order of time: each CPU has a ring of its own. The caller holds mu.
func (f *Follower) tell() {
	slices.SortStableFunc(f.events, func(a, b symbol.Event) int { return cmp.Compare(a.Time, b.Time) })
	for i := range f.events {
		ev := &f.events[i]
		if ev.Kind == symbol.EventLost && i > 0 && f.events[i-1].Kind == symbol.EventLost {
			continue // all of them have one time
		}
		if (f.processes.Handle(ev) || ev.Kind == symbol.EventExit) && f.changed != nil {
			f.changed(ev)
		}
	}
	clear(f.events) // their paths
	f.events = f.events[:0]
}

// end ends following, for a reason.
func (f *Follower) end(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = why
		f.processes.Follow(false)
	}
}

// Close ends following. Closing again does nothing.
func (f *Follower) Close() error {
	if f == nil {
		return nil
	}
	f.stop()
	<-f.done
	_ = f.Sync() // what it ended with was said
	f.end(os.ErrClosed)
	return f.sampler.Close()
}
