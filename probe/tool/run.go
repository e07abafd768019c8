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

// Run is a run of a tool, live or replayed, which Tool.Run passes to its body. It is a
// bpf.Reader, with which the body opens maps and events. It is used by one goroutine.
type Run struct {
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

func newRun(t *Tool, stdout *Output) *Run {
	r := &Run{tool: t}
	r.out.init(stdout, t.json)
	r.names.run = r
	return r
}

// Context returns the run's context. It ends with the run: by Ctrl-C, or after the time of
// -d.
func (r *Run) Context() context.Context { return r.ctx }

// Now returns the time of the current call of Every's function; at replay, the recorded time.
// Before the first call it is the time at which the probes were attached.
func (r *Run) Now() time.Time { return r.tick }

// Elapsed returns the time that the current call of Every's function covers: since the
// previous call, or since the probes were attached. Compute rates with it: on a loaded
// machine it is longer than the tool's interval.
func (r *Run) Elapsed() time.Duration { return r.tick.Sub(r.before) }

// Time converts the time of an event, a value of Ctx.Nsecs.
func (r *Run) Time(nsecs uint64) time.Time {
	return r.data.Zero.Add(time.Duration(nsecs))
}

// Arch returns the architecture of the traced machine, in GOARCH's spelling.
func (r *Run) Arch() string {
	if r.live == nil {
		return r.tool.recording.Meta().Arch
	}
	return runtime.GOARCH
}

// Probe returns the target that fired, "kprobe:vfs_read", given the value of Ctx.Probe, ""
// for an unknown one.
func (r *Run) Probe(id uint64) string {
	if id == 0 || id > uint64(len(r.data.Probes)) {
		return ""
	}
	return r.data.Probes[id-1]
}

// Probes returns the attached targets, one for each site, with wildcards expanded. Probe's
// argument is an index into it, plus one.
func (r *Run) Probes() []string { return r.data.Probes }

// Detach detaches the probes; the maps stay readable and no longer change. Each and Every
// call it before their last read.
func (r *Run) Detach() error {
	if r.live == nil || r.drained {
		return nil
	}
	r.drained = true
	err := r.live.Detach()
	if r.unseen != nil {
		err = errors.Join(err, r.unseen.Detach())
	}
	return err
}

// Every calls fn at the end of every interval and, for the rest of the current one, at the
// end of the run; without an interval only then. At replay it calls fn as often as during the
// recording. Every ends if fn returns an error, which it returns unless it is io.EOF.
func (r *Run) Every(fn func() error) error {
	for {
		more, err := r.nextTick()
		if err == nil {
			if r.tool.clears && !r.tool.noClear {
				r.out.clear()
			}
			r.ticking = r.tool.interval > 0
			err = fn()
			r.ticking = false
		}
		r.flush()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case r.out.err != nil:
			return r.out.err
		case !more:
			return nil
		}
	}
}

// nextTick waits for the end of the interval, and reports whether there will be another one.
func (r *Run) nextTick() (more bool, err error) {
	r.before = r.tick
	if r.live == nil {
		if r.ticks == len(r.data.Ticks) {
			return false, io.EOF
		}
		r.tick = r.data.Ticks[r.ticks].Local()
		r.ticks++
		return r.ticks < len(r.data.Ticks), r.ctx.Err()
	}
	t := r.tool
	var end <-chan time.Time
	if t.interval > 0 {
		timer := time.NewTimer(t.interval)
		defer timer.Stop()
		end = timer.C
	}
	select {
	case <-r.ctx.Done():
	case <-end:
		more = true
	}
	r.ticks++
	more = more && (t.count == 0 || r.ticks < t.count)
	if !more {
		err = r.Detach()
	}
	r.tick = time.Now()
	r.data.Ticks = append(r.data.Ticks, r.tick.Round(0))
	return more, err
}

// Each calls fn with the events of a stream until the run ends; then it detaches the probes
// and reads the rest of the buffer. Each ends if fn returns an error, which it returns unless
// it is io.EOF. The event is valid only during the call.
func Each[T any](run *Run, ev *action.Events[T], fn func(e *T) error) error {
	r, err := ev.Open(run)
	if err != nil {
		return err
	}
	run.streams = append(run.streams, r)
	events, err := mapx.NewEvents[T](r.Source())
	if err != nil {
		return err
	}
	run.flush() // the headings, before the first event
	e := new(T)
	for {
		err := next(run, events, e, fn)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			return nil
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			if run.drained || run.live == nil {
				return nil
			}
			if err := run.Detach(); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// next calls fn with the next event, in e. It does not allocate.
func next[T any](r *Run, events *mapx.Events[T], e *T, fn func(e *T) error) error {
	if err := events.Next(r.ctx, e); err != nil {
		return err
	}
	err := fn(e)
	if events.Record().Remaining == 0 {
		r.flush()
	}
	if err == nil {
		err = r.out.err
	}
	return err
}
