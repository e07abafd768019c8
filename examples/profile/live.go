package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/borescope/borescope/escape"
	"github.com/borescope/borescope/internal/privileges"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/profile"
	"github.com/borescope/borescope/symbol"
)

// meta is what a recording keeps besides what was collected.
type meta struct {
	Event    string        `json:"event"` // what was sampled, in perf's spelling
	Clock    bool          `json:"clock"` // the event counts nanoseconds
	Freq     uint64        `json:"freq,omitempty"`
	Period   uint64        `json:"period,omitempty"`
	CPUs     int           `json:"cpus"`
	Start    time.Time     `json:"start"`
	Duration time.Duration `json:"duration"`
}

// title is what was sampled, for people.
func (m *meta) title() string {
	rate := fmt.Sprintf("at %d Hz", m.Freq)
	if m.Period != 0 {
		rate = fmt.Sprintf("every %d", m.Period)
	}
	return fmt.Sprintf("%s %s on %d CPUs for %v", m.Event, rate, m.CPUs, m.Duration.Round(100*time.Millisecond))
}

// measureLive samples this machine.
func measureLive(ctx context.Context, c *config, stderr io.Writer) (r *result, err error) {
	for _, pid := range c.pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			return nil, fmt.Errorf("-p %d: no such process", pid)
		}
	}
	col, err := collect.Attach([]probe.Target{c.target()}, &collect.Options{
		NoKernel: c.user, NoUser: c.kernel, PIDs: c.pids, Comm: c.comm,
		Idle: c.idle, Self: c.idle, // all of the time, or what others use of it
		Hold: len(c.pids) > 0,
	})
	if err != nil {
		return nil, explain(err)
	}
	defer col.Close()
	if len(c.pids) > 0 { // all of their stacks are to be whole, the first ones too
		if err := loadWalker(col, stderr); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
	}
	m := describe(col.Plan())

	var rec *recorder
	if c.record != "" {
		if rec, err = newRecorder(c.record, col); err != nil {
			return nil, err
		}
		defer func() { err = cmp.Or(err, rec.Close()) }()
	}
	processes := symbol.NewProcesses(&symbol.Options{Chosen: len(c.pids) > 0})
	defer processes.Close()
	kernel, err := symbol.OpenKernel(nil)
	if err != nil {
		return nil, err
	}

	if err := privileges.Keep(ctx, "profile", c.record != ""); err != nil {
		return nil, err
	}
	m.Start, m.Duration = time.Now(), c.duration
	escape.Fprintf(stderr, "Sampling %s ... Hit Ctrl-C to end.\n", m.title())
	if err := watch(ctx, c, col, processes, stderr); err != nil {
		return nil, err
	}
	if err := col.Detach(); err != nil {
		return nil, err
	}
	m.Duration = time.Since(m.Start)
	live := &source{
		collector: col, meta: m, kernel: kernel,
		process: func(pid int) symbol.Resolver {
			if p, err := processes.Process(pid); err == nil {
				return withPython(p, col.Python(pid))
			}
			return unnamed{symbol.ReasonExited}
		},
	}
	rec.tee(live)
	if r, err = live.result(); err != nil {
		return nil, err
	}
	return r, rec.finish(&live.meta)
}

// watch waits for the end, and looks at every process when it is first
// sampled, so that one that ends before the run does still gets names.
func watch(ctx context.Context, c *config, col *collect.Collector, processes *symbol.Processes, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, c.duration)
	defer cancel()
	stop := progress(ctx, c, stderr)
	defer stop()
	add, join := walkUserStacks(ctx, col, stderr)
	var rec mapx.Record
	for {
		err := col.Processes().ReadInto(ctx, &rec)
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				err = nil
			}
			return cmp.Or(join(), err)
		}
		pid, _, err := collect.ParseProcess(&rec)
		if err != nil {
			return cmp.Or(join(), err)
		}
		// Of a process that is gone already the frames say that they have no names.
		_ = processes.Observe(pid)
		add(pid)
	}
}

// walkUserStacks loads the walker of user stacks and gives it the processes
// that are added, beside the caller, who has to look at others meanwhile: rules
// of a large program take a while to compile. Older kernels go on with frame
// pointers; the last line says what came of it.
func walkUserStacks(ctx context.Context, col *collect.Collector, stderr io.Writer) (add func(pid int), join func() error) {
	pids := make(chan int, 1<<14)
	done := make(chan error, 1)
	go func() {
		err := loadWalker(col, stderr)
		for pid := range pids {
			if err == nil && ctx.Err() == nil {
				_ = col.AddProcess(pid) // what can't be read is walked by frame pointers
			}
		}
		if errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
		done <- err
	}()
	add = func(pid int) {
		select {
		case pids <- pid:
		default: // so many that one more does not matter
		}
	}
	return add, func() error { close(pids); return <-done }
}

// loadWalker says it if there is no memory for the walker: more could be given.
func loadWalker(col *collect.Collector, stderr io.Writer) error {
	err := col.LoadWalker()
	if errors.Is(err, syscall.ENOMEM) {
		escape.Fprintf(stderr, "profile: %v\n", err)
	}
	return err
}

// progress counts the seconds on a terminal until the returned function is
// called.
func progress(ctx context.Context, c *config, stderr io.Writer) (stop func()) {
	if !cli.Terminal(stderr) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for left := c.duration; ; left -= time.Second {
			select {
			case <-ctx.Done():
				escape.Fprintf(stderr, "\r\x1b[K")
				return
			case <-tick.C:
				escape.Fprintf(stderr, "\r%v left \x1b[K", (left - time.Second).Round(time.Second))
			}
		}
	}()
	return func() { cancel(); <-done }
}

// describe says what the plan samples.
func describe(p *probe.Plan) meta {
	m := meta{}
	for _, s := range p.Programs[0].Sites {
		if t, ok := s.Target.(probe.Perf); ok {
			m.Event, m.Freq, m.Period = t.Event.String(), t.Freq, t.Period
			m.Clock = m.Event == "cpu-clock" || m.Event == "task-clock"
		}
		m.CPUs++
	}
	return m
}

// explain adds the ways on to a refusal.
func explain(err error) error {
	const replay = "look at a recorded machine: go run ./examples/profile -replay demo"
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w; run it as root: go run -exec sudo ./examples/profile, or %s", err, replay)
	case runtime.GOOS != "linux":
		return fmt.Errorf("%w; %s", err, replay)
	}
	return err
}

// unnamed is the resolver of a process that could not be looked at.
type unnamed struct{ reason symbol.Reason }

func (u unnamed) Resolve(dst []symbol.Frame, pcs []uint64) []symbol.Frame {
	for i := range pcs {
		dst = append(dst, symbol.Frame{Index: i, Reason: u.reason})
	}
	return dst
}

// source is where a result is made from: a live machine or a recording.
type source struct {
	collector *collect.Collector
	meta      meta
	kernel    symbol.Resolver
	process   func(pid int) symbol.Resolver
}

// result reads and names what was collected.
func (s *source) result() (*result, error) {
	samples, err := s.collector.Samples()
	if err != nil {
		return nil, err
	}
	stats, err := s.collector.Stats()
	if err != nil {
		return nil, err
	}
	stopped, err := s.collector.Stopped()
	if err != nil {
		return nil, err
	}
	names := newNames(s.kernel, s.process)
	m := &s.meta
	p := &profile.Profile{
		SampleTypes: []profile.ValueType{{Type: "samples", Unit: "count"}},
		Samples:     names.samples(samples),
		Time:        m.Start,
		Duration:    m.Duration,
		Comments:    []string{m.title()},
	}
	switch {
	case m.Clock && m.Freq != 0:
		p.PeriodType = profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
		p.Period = int64(time.Second) / int64(m.Freq)
		p.SampleTypes = append(p.SampleTypes, p.PeriodType)
		for i := range p.Samples {
			s := &p.Samples[i]
			s.Values = append(s.Values, s.Values[0]*p.Period)
		}
	case m.Period != 0:
		p.PeriodType = profile.ValueType{Type: m.Event, Unit: "count"}
		p.Period = int64(m.Period)
	}
	return &result{profile: p, lost: stats.Lost(), stopped: stopped, title: m.title()}, nil
}
