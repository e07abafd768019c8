package pmc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/perfring"
)

// Sampler is an event that writes a record at each overflow, open on one or
// more threads or CPUs, each with a ring of its own. ReadInto is for one
// goroutine at a time; Close may come from another, and ends its wait.
type Sampler struct {
	handles []*Handle
	rings   []*perfring.Ring
	format  perfring.Format
	cgroup  *os.File
	raw     perfring.Raw
	next    int // the ring to look into first
	poll    []unix.PollFd
	wake    *os.File
	wakeFD  int
	ended   []bool // by ring: the thread has ended, or the event is in error
	closed  atomic.Bool
	mu      sync.Mutex // held while reading, so that Close unmaps no ring under a reader
}

// OpenSampler opens the event with a ring at each thread or CPU of the scope.
// The records of one ring come in order, those of different rings as they are
// found: SampleTime tells. The caller closes the Sampler.
func OpenSampler(e Event, s Scope, spec SamplingSpec, o *SamplerOptions) (sm *Sampler, err error) {
	if o == nil {
		o = &SamplerOptions{}
	}
	pages := o.Pages
	if pages == 0 {
		pages = 64
	}
	if spec.silent(e) {
		return nil, fmt.Errorf("event %s: a sampler needs a period or a frequency: set SamplingSpec.Period or Freq", e)
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
	// A sample's read gives the event's own value: times and id.
	open := OpenOptions{
		Sampling: &spec, Inherit: o.Inherit, EnableOnExec: o.EnableOnExec, Disabled: true,
		ExactPrecise: o.ExactPrecise, Root: o.Root, ReadFormat: perfring.FormatID | perfring.FormatEnabled | perfring.FormatRunning,
	}
	sm = &Sampler{format: spec.format(open.ReadFormat)}
	defer func() {
		if err != nil {
			sm.Close()
		}
	}()
	if s.Cgroup != "" {
		if sm.cgroup, err = OpenCgroup(s.Cgroup); err != nil {
			return nil, err
		}
	}
	for _, p := range places {
		p.Cgroup = sm.cgroup
		if err := sm.add(e, p, &open, pages); err != nil {
			return nil, err
		}
	}
	if err := sm.prepare(); err != nil {
		return nil, err
	}
	if !o.Disabled && !o.EnableOnExec {
		return sm, sm.Enable()
	}
	return sm, nil
}

// bound binds each thread's place to each CPU.
func bound(places []Place, online []int) []Place {
	out := make([]Place, 0, len(places)*len(online))
	for _, p := range places {
		for _, c := range online {
			out = append(out, Place{PID: p.PID, CPU: c})
		}
	}
	return out
}

func (sm *Sampler) add(e Event, p Place, o *OpenOptions, pages int) error {
	h, err := OpenEvent(e, p, o)
	if err != nil {
		return err
	}
	sm.handles = append(sm.handles, h)
	ring, err := perfring.Map(h.FD(), pages)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: over kernel.perf_event_mlock_kb for this user; smaller rings (Pages), or CAP_IPC_LOCK", err)
		}
		return fmt.Errorf("event %s on %s: %w", e, p, err)
	}
	sm.rings = append(sm.rings, ring)
	return nil
}

// prepare makes what ReadInto waits on.
func (sm *Sampler) prepare() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	sm.wake, sm.wakeFD = os.NewFile(uintptr(fd), "eventfd"), fd
	for _, h := range sm.handles {
		sm.poll = append(sm.poll, unix.PollFd{Fd: int32(h.fd), Events: unix.POLLIN})
	}
	sm.poll = append(sm.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	sm.ended = make([]bool, len(sm.rings))
	return nil
}

// Enable starts sampling.
func (sm *Sampler) Enable() error { return sm.each((*Handle).Enable) }

// Disable stops sampling; what is in the rings stays to be read.
func (sm *Sampler) Disable() error { return sm.each((*Handle).Disable) }

func (sm *Sampler) each(f func(*Handle) error) error {
	for _, h := range sm.handles {
		if err := f(h); err != nil {
			return err
		}
	}
	return nil
}

// Precise is the level of precision obtained, as Handle.Precise: the lowest of
// all places.
func (sm *Sampler) Precise() int {
	level := 3
	for _, h := range sm.handles {
		level = min(level, h.Precise())
	}
	return level
}

// Handles are the open events, one for each thread or CPU; they stay the Sampler's.
func (sm *Sampler) Handles() []*Handle { return sm.handles }

// Stats adds up what was read and lost in all rings. It waits for a ReadInto
// that is under way.
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

// TryRead reads a record if there is one, without waiting. The error is about
// the record, which is shorter than it should be; the next one can be read.
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

// ReadInto reads the next record into rec, reusing its memory, and waits for
// one if there is none. It returns ctx's error when ctx ends, os.ErrClosed
// after Close, and io.EOF when all threads that were sampled have ended and all
// is read. It allocates nothing unless it waits or the record has strings.
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
		if err := sm.wait(ctx); err != nil {
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

// wait blocks until a ring has data, a thread has ended, ctx ends or Close
// wakes it.
func (sm *Sampler) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, sm.wakeUp)
	defer stop()
	_, err := unix.Poll(sm.poll, -1)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("poll perf rings: %w", err)
	}
	for i := range sm.ended {
		if sm.poll[i].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			sm.ended[i] = true
			sm.poll[i].Fd = -1 // or the next poll would return at once
		}
	}
	if sm.poll[len(sm.poll)-1].Revents != 0 {
		var b [8]byte
		unix.Read(sm.wakeFD, b[:])
	}
	return ctx.Err()
}

// wakeUp ends a wait, now or the next one. It goes through the os.File, since
// it may come after Close.
func (sm *Sampler) wakeUp() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	sm.wake.Write(one[:])
}

// Close ends the event and frees the rings. It is idempotent, and a nil Sampler
// is closed already.
func (sm *Sampler) Close() error {
	if sm == nil || sm.closed.Swap(true) {
		return nil
	}
	var errs []error
	if sm.wake != nil {
		sm.wakeUp()
	}
	sm.mu.Lock()
	defer sm.mu.Unlock()
	for _, r := range sm.rings {
		errs = append(errs, r.Unmap())
	}
	for _, h := range sm.handles {
		errs = append(errs, h.Close())
	}
	for _, f := range []*os.File{sm.wake, sm.cgroup} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
