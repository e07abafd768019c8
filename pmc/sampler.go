package pmc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/perfring"
)

// Record is one record of a Sampler: a sample, or one of the others that a SamplingSpec
// selects. Its methods (IsSample, IsComm, …) report its kind; the record is in the field of
// that kind. Its slices are reused by the next Sampler.ReadInto.
//
//	IsSample                Sample; InKernel, ExactIP
//	IsLost                  Lost
//	IsComm                  Comm
//	IsFork, IsExit          Task
//	IsMmap                  Mmap; HoldsCode
//	IsSwitch                Switch; Out, Preempted
//	IsKsymbol               Ksymbol
//	IsThrottle, IsUnthrottle  Rate
type Record = perfring.Record

// Sample is the Sample part of a Record.
type Sample = perfring.Sample

// SamplerStats counts the records that were read and lost in a Sampler's rings.
type SamplerStats = perfring.Stats

// SamplerOptions are the options of OpenSampler. A nil *SamplerOptions is the zero value.
type SamplerOptions struct {
	// Pages is the size of each ring in pages, a power of two; 0 is 64 (256 KiB
	// with pages of 4 KiB). Without CAP_IPC_LOCK the kernel allows
	// kernel.perf_event_mlock_kb for each user and CPU (516 KiB by default).
	Pages int
	// Inherit, EnableOnExec and Disabled are as in CountOptions. An inherited event can have
	// a ring only if it is bound to a CPU, so with Inherit the event is opened once for each
	// online CPU.
	Inherit, EnableOnExec, Disabled bool
	// ExactPrecise makes OpenSampler fail if the PMU lacks the event's Precise level, instead
	// of using the next lower one.
	ExactPrecise bool
	// Root is the tree of the machine's files; nil is this machine.
	Root fs.FS
}

// format returns the format that the layout of records depends on.
func (s *SamplingSpec) format(readFormat uint64) perfring.Format {
	return perfring.Format{
		SampleType: s.sampleType(), ReadFormat: readFormat, BranchSampleType: s.Branches,
		SampleIDAll: s.records() != 0,
	}
}

// Sampler is an event that writes a record at each overflow, open on one or more threads or
// CPUs, each with its own ring. Only one goroutine at a time may call ReadInto or Wait; another
// may call TryRead, or Close, which ends a waiting ReadInto.
type Sampler struct {
	handles []*Handle
	rings   []*perfring.Ring
	format  perfring.Format
	cgroup  *os.File
	raw     perfring.Raw
	next    int // the ring to try first
	waiter  *waiter
	ended   []bool // by ring: the thread has ended, or the event is in error
	closed  atomic.Bool
	mu      sync.Mutex // held while reading, so that Close unmaps no ring under a reader
	waits   sync.Mutex // held while waiting, so that Close ends no waiter under it
}

// OpenSampler opens the event with a ring at each thread or CPU of the scope. The records of
// one ring are in order, those of different rings are not: SampleTime has their time. The
// caller closes the Sampler.
func OpenSampler(e Event, s Scope, spec SamplingSpec, o *SamplerOptions) (sm *Sampler, err error) {
	if err := available(); err != nil {
		return nil, err
	}
	if o == nil {
		o = &SamplerOptions{}
	}
	pages := o.Pages
	if pages == 0 {
		pages = 64
	}
	if spec.silent(e) {
		return nil, fmt.Errorf(
			"event %s: a sampler needs a period or a frequency: set SamplingSpec.Period or Freq", e)
	}
	fsys := rootOf(&Options{Root: o.Root})
	places, err := s.places(fsys)
	if err != nil {
		return nil, err
	}
	if o.Inherit && !s.wide() {
		online, err := cpus.Online(fsys)
		if err != nil {
			return nil, err
		}
		places = bound(places, online)
	}
	// A sample's read contains the event's own value: times and id.
	open := openOptions{
		sampling: &spec, inherit: o.Inherit, enableOnExec: o.EnableOnExec, disabled: true,
		exactPrecise: o.ExactPrecise, root: o.Root,
		readFormat: perfring.FormatID | perfring.FormatEnabled | perfring.FormatRunning,
	}
	sm = &Sampler{format: spec.format(open.readFormat)}
	defer func() {
		if err != nil {
			sm.Close()
		}
	}()
	if s.Cgroup != "" {
		if sm.cgroup, err = openCgroup(s.Cgroup); err != nil {
			return nil, err
		}
	}
	for _, p := range places {
		p.Cgroup = sm.cgroup
		if err := sm.add(e, p, &open, pages); err != nil {
			return nil, err
		}
	}
	sm.ended = make([]bool, len(sm.rings))
	if sm.waiter, err = newWaiter(sm.handles); err != nil {
		return nil, err
	}
	if !o.Disabled && !o.EnableOnExec {
		return sm, sm.Enable()
	}
	return sm, nil
}

// bound returns each thread's place on each CPU.
func bound(places []Place, online []int) []Place {
	out := make([]Place, 0, len(places)*len(online))
	for _, p := range places {
		for _, c := range online {
			out = append(out, Place{PID: p.PID, CPU: c})
		}
	}
	return out
}

func (sm *Sampler) add(e Event, p Place, o *openOptions, pages int) error {
	h, err := openEvent(e, p, o)
	if err != nil {
		return err
	}
	sm.handles = append(sm.handles, h)
	ring, err := perfring.Map(h.FD(), pages)
	if err != nil {
		if errors.Is(err, syscall.EPERM) {
			err = fmt.Errorf("%w: over kernel.perf_event_mlock_kb for this user; smaller rings (Pages), or CAP_IPC_LOCK", err)
		}
		return fmt.Errorf("event %s on %s: %w", e, p, err)
	}
	sm.rings = append(sm.rings, ring)
	return nil
}

// Enable starts sampling.
func (sm *Sampler) Enable() error { return sm.each((*Handle).enable) }

// Disable stops sampling. Records in the rings can still be read.
func (sm *Sampler) Disable() error { return sm.each((*Handle).disable) }

func (sm *Sampler) each(f func(*Handle) error) error {
	for _, h := range sm.handles {
		if err := f(h); err != nil {
			return err
		}
	}
	return nil
}

// Handles returns the open events, one for each thread or CPU; they belong to the Sampler.
func (sm *Sampler) Handles() []*Handle { return sm.handles }

// Stats returns the sums of records read and lost in all rings. It waits for a ReadInto that
// is running.
func (sm *Sampler) Stats() SamplerStats {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	var out SamplerStats
	for _, r := range sm.rings {
		s := r.Stats()
		out.Records += s.Records
		out.Lost += s.Lost
		out.Corrupt += s.Corrupt
		out.CorruptBytes += s.CorruptBytes
	}
	return out
}

// TryRead reads a record if one is available, without waiting, and reports whether one was. The
// error is about the record, which is shorter than it should be; the next one can be read.
func (sm *Sampler) TryRead(rec *Record) (bool, error) {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	if sm.closed.Load() {
		return false, os.ErrClosed
	}
	return sm.tryRead(rec)
}

func (sm *Sampler) tryRead(rec *Record) (bool, error) {
	for range sm.rings {
		if sm.rings[sm.next].Next(&sm.raw) {
			return true, sm.format.Decode(&sm.raw, rec)
		}
		sm.next = (sm.next + 1) % len(sm.rings)
	}
	return false, nil
}

// ReadInto reads the next record into rec, reusing its memory, and waits if there is none. It
// returns ctx's error when ctx ends, os.ErrClosed after Close, and io.EOF when all sampled
// threads have ended and all records are read. It allocates nothing unless it waits or the
// record has strings.
func (sm *Sampler) ReadInto(ctx context.Context, rec *Record) error {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	for {
		if sm.closed.Load() {
			return os.ErrClosed
		}
		if ok, err := sm.tryRead(rec); ok {
			return err
		}
		if sm.allEnded() {
			return io.EOF
		}
		if err := sm.Wait(ctx); err != nil && !errors.Is(err, os.ErrClosed) {
			return err
		}
	}
}

func (sm *Sampler) allEnded() bool {
	for _, e := range sm.ended {
		if !e {
			return false
		}
	}
	return true
}

// Wait waits until there may be a record to read, a sampled thread has ended, ctx ends, or Close is
// called, for which the error is os.ErrClosed. Others may call TryRead meanwhile. With
// SamplingSpec.WakeupBytes 1 every record ends it, without only a ring that is half full.
func (sm *Sampler) Wait(ctx context.Context) error {
	sm.waits.Lock()
	defer sm.waits.Unlock()
	if sm.closed.Load() {
		return os.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, sm.waiter.wakeUp)
	defer stop()
	if err := sm.waiter.wait(sm.ended); err != nil {
		return err
	}
	return ctx.Err()
}

// Close ends the event and frees the rings. It may be called again, and on a nil Sampler.
func (sm *Sampler) Close() error {
	if sm == nil || sm.closed.Swap(true) {
		return nil
	}
	var errs []error
	sm.waiter.wakeUp()
	sm.mu.Lock()
	defer sm.mu.Unlock()
	sm.waits.Lock()
	defer sm.waits.Unlock()
	for _, r := range sm.rings {
		errs = append(errs, r.Unmap())
	}
	for _, h := range sm.handles {
		errs = append(errs, h.close())
	}
	errs = append(errs, sm.waiter.close())
	if sm.cgroup != nil {
		errs = append(errs, sm.cgroup.Close())
	}
	return errors.Join(errs...)
}
