package tool

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// Session is a run of a tool, live or replayed, which Run passes to its body. It is a
// bpf.Reader, with which the body opens maps and events. It is used by one goroutine.
type Session struct {
	bpf.Reader

	tool    *Tool
	ctx     context.Context
	cancel  context.CancelFunc
	live    source              // nil at replay
	rec     *recording.Recorder // nil unless recording
	out     output
	streams []eventStream
	names   names
	unseen  unseenCount // nil without
	// uncounted is why calls of 32-bit processes are not counted.
	uncounted error
	data      recorded
	tick      time.Time // the time of the current call of Every's function
	before    time.Time // that of the previous call
	first     uint64    // the zero of Seconds, in ns
	ticks     int
	ticking   bool // an interval has ended, and Every's function is printing its results
	drained   bool // the probes are detached; only the rest of the buffers is left to read
}

// eventStream is a stream that Run closes after counting its losses.
type eventStream interface {
	Stats() (mapx.Stats, error)
	Close() error
}

func newSession(t *Tool, stdout *Output) *Session {
	s := &Session{tool: t}
	s.out.init(stdout, t.json)
	s.names.session = s
	return s
}

// Context returns the run's context. It ends with the run: by Ctrl-C, or after the time of
// -d.
func (s *Session) Context() context.Context { return s.ctx }

// Now returns the time of the current call of Every's function; at replay, the recorded time.
// Before the first call it is the time at which the probes were attached.
func (s *Session) Now() time.Time { return s.tick }

// Elapsed returns the time that the current call of Every's function covers: since the
// previous call, or since the probes were attached. Compute rates with it: on a loaded
// machine it is longer than the tool's interval.
func (s *Session) Elapsed() time.Duration { return s.tick.Sub(s.before) }

// Time converts the time of an event, a value of Ctx.Nsecs.
func (s *Session) Time(nsecs uint64) time.Time {
	return s.data.Zero.Add(time.Duration(nsecs))
}

// Arch returns the architecture of the traced machine, in GOARCH's spelling.
func (s *Session) Arch() string {
	if s.live == nil {
		return s.tool.recording.Meta().Arch
	}
	return runtime.GOARCH
}

// Probe returns the target that fired, "kprobe:vfs_read", given the value of Ctx.Probe, ""
// for an unknown one.
func (s *Session) Probe(id uint64) string {
	if id == 0 || id > uint64(len(s.data.Probes)) {
		return ""
	}
	return s.data.Probes[id-1]
}

// Probes returns the attached targets, one for each site, with wildcards expanded. Probe's
// argument is an index into it, plus one.
func (s *Session) Probes() []string { return s.data.Probes }

// Detach detaches the probes; the maps stay readable and no longer change. Each and Every
// call it before their last read.
func (s *Session) Detach() error {
	if s.live == nil || s.drained {
		return nil
	}
	s.drained = true
	err := s.live.Detach()
	if s.unseen != nil {
		err = errors.Join(err, s.unseen.Detach())
	}
	return err
}

// Every calls fn at the end of every interval and, for the rest of the current one, at the
// end of the run; without an interval only then. At replay it calls fn as often as during the
// recording. Every ends if fn returns an error, which it returns unless it is io.EOF.
func (s *Session) Every(fn func() error) error {
	for {
		more, err := s.nextTick()
		if err == nil {
			if s.tool.clears && !s.tool.noClear {
				s.out.clear()
			}
			s.ticking = s.tool.interval > 0
			err = fn()
			s.ticking = false
		}
		s.flush()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case s.out.err != nil:
			return s.out.err
		case !more:
			return nil
		}
	}
}

// nextTick waits for the end of the interval, and reports whether there will be another one.
func (s *Session) nextTick() (more bool, err error) {
	s.before = s.tick
	if s.live == nil {
		if s.ticks == len(s.data.Ticks) {
			return false, io.EOF
		}
		s.tick = s.data.Ticks[s.ticks].Local()
		s.ticks++
		return s.ticks < len(s.data.Ticks), s.ctx.Err()
	}
	t := s.tool
	var end <-chan time.Time
	if t.interval > 0 {
		timer := time.NewTimer(t.interval)
		defer timer.Stop()
		end = timer.C
	}
	select {
	case <-s.ctx.Done():
	case <-end:
		more = true
	}
	s.ticks++
	more = more && (t.count == 0 || s.ticks < t.count)
	if !more {
		err = s.Detach()
	}
	s.tick = time.Now()
	s.data.Ticks = append(s.data.Ticks, s.tick.Round(0))
	return more, err
}

// Each calls fn with the events of a stream until the run ends; then it detaches the probes
// and reads the rest of the buffer. Each ends if fn returns an error, which it returns unless
// it is io.EOF. The event is valid only during the call.
func Each[T any](s *Session, ev *action.Events[T], fn func(e *T) error) error {
	r, err := ev.Open(s)
	if err != nil {
		return err
	}
	s.streams = append(s.streams, r)
	events, err := mapx.NewEvents[T](r.Source())
	if err != nil {
		return err
	}
	s.flush() // the headings, before the first event
	e := new(T)
	for {
		err := next(s, events, e, fn)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			return nil
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			if s.drained || s.live == nil {
				return nil
			}
			if err := s.Detach(); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// next calls fn with the next event, in e. It does not allocate.
func next[T any](s *Session, events *mapx.Events[T], e *T, fn func(e *T) error) error {
	if err := events.Next(s.ctx, e); err != nil {
		return err
	}
	err := fn(e)
	if events.Record().Remaining == 0 {
		s.flush()
	}
	if err == nil {
		err = s.out.err
	}
	return err
}
