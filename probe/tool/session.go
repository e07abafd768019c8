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

// Session is a run of a tool, live or replayed: what Run gives its body. It is an
// bpf.Reader, from which maps and events are opened. It is used by one
// goroutine.
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
	data    recorded
	tick    time.Time // the moment of the current call of Every's function
	before  time.Time // that of the last call
	first   uint64    // of Seconds
	ticks   int
	ticking bool // an interval has ended, and its results are being printed
	drained bool // probes are detached, what is left in the buffers is being read
}

// eventStream is a stream that Run closes and asks what it lost.
type eventStream interface {
	Stats() (mapx.Stats, error)
	Close() error
}

func newSession(t *Tool, stdout io.Writer) *Session {
	s := &Session{tool: t}
	s.out.init(stdout, t.json)
	s.names.session = s
	return s
}

// Context ends with the run: Ctrl-C, or the end of -d.
func (s *Session) Context() context.Context { return s.ctx }

// Now is the moment of the current call of Every's function, as recorded at
// replay; before the first it is when the probes were attached.
func (s *Session) Now() time.Time { return s.tick }

// Elapsed is the time that the current call of Every's function is about: since
// its last call, or since the probes were attached. Rates are of this time, which
// on a loaded machine is longer than the interval that was asked for.
func (s *Session) Elapsed() time.Duration { return s.tick.Sub(s.before) }

// Time is the moment of an event, of its time by Ctx.Nsecs.
func (s *Session) Time(nsecs uint64) time.Time {
	return s.data.Zero.Add(time.Duration(nsecs))
}

// Arch is the architecture of the machine that is or was traced, as GOARCH spells
// it.
func (s *Session) Arch() string {
	if s.live == nil {
		return s.tool.recording.Meta().Arch
	}
	return runtime.GOARCH
}

// Probe is the target that fired, of the value of Ctx.Probe: "kprobe:vfs_read".
func (s *Session) Probe(id uint64) string {
	if id == 0 || id > uint64(len(s.data.Probes)) {
		return ""
	}
	return s.data.Probes[id-1]
}

// Probes are the targets that are attached, one for each site: wildcards are
// the matches. Probe's argument is an index into it, plus one.
func (s *Session) Probes() []string { return s.data.Probes }

// Detach ends the probes, and leaves the maps to be read at rest. Each and Every
// call it before they read for the last time.
func (s *Session) Detach() error {
	if s.live == nil || s.drained {
		return nil
	}
	s.drained = true
	return s.live.Detach()
}

// Every calls fn at the end of every interval and, with what is left of the
// current one, when the run ends; without an interval only then. At replay it
// calls fn as often as when it was recorded. An error of fn ends it; io.EOF
// without being one.
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

// nextTick waits for the end of the interval, and says whether there will be
// another.
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

// Each calls fn with the events of a stream until the run ends; then the probes
// are detached and what is in the buffer is read to its end. An error of fn ends
// it; io.EOF without being one. The event is valid during the call.
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

// next calls fn with the next event, in e. It allocates nothing.
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
