package script

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/internal/lower"
	"github.com/borescope/borescope/probe/script/output"
	"github.com/borescope/borescope/probe/script/syntax"
)

// Mode is which of a script's probes run.
type Mode uint8

// The modes. The probes of begin and end run in each.
const (
	// ModeRun is all probes but tests and benches.
	ModeRun Mode = iota
	// ModeTest is the test probes, each once: one that returns a number that is not 0, calls exit() with
	// such a number, or prints an error has failed, and has what it printed shown.
	ModeTest
	// ModeBench is the bench probes, each as often as it takes for a millisecond. What they print is
	// dropped.
	ModeBench
)

// provider returns the provider of the mode's own probes.
func (m Mode) provider() string {
	return map[Mode]string{ModeTest: "test", ModeBench: "bench"}[m]
}

// without returns the error for a script that has no probes of the mode.
func (m Mode) without(f *syntax.File) error {
	for n := range syntax.All(f) {
		a, ok := n.(*syntax.AttachPoint)
		if ok && m == ModeRun && (a.Provider == "test" || a.Provider == "bench") {
			return syntax.Errors{{
				Msg: "No probes attached; use --" + a.Provider + " to run " + a.Provider + " probes.",
			}}
		}
	}
	return ErrNoProbes
}

// point returns the attach point of a program, nil if it was added.
func (s *run) point(g *probe.ProgramPlan) *syntax.AttachPoint {
	if g.Group < len(s.low.Points) {
		return s.low.Points[g.Group]
	}
	return nil
}

// isCalled reports whether the run itself calls a program while the others are attached.
func (s *run) isCalled(g *probe.ProgramPlan) bool {
	a := s.point(g)
	return a != nil && lower.Called(a)
}

// called returns the attach points whose programs the run calls, in the order of the script, and the
// programs.
func (s *run) called() (points []*syntax.AttachPoint, programs []*ebpf.Program) {
	for i := range s.plan.Programs {
		if g := &s.plan.Programs[i]; s.isCalled(g) {
			points = append(points, s.point(g))
			programs = append(programs, s.loaded.Programs()[g.Name])
		}
	}
	return points, programs
}

// Signalled reports whether the script has probes of SIGUSR1, the only signal of which there are probes; see
// RunOptions.Signals.
func (p *Program) Signalled() bool {
	return slices.ContainsFunc(p.low.Points, func(a *syntax.AttachPoint) bool { return a.Provider == "self" })
}

// signals runs the probes of the signals that were got.
func (s *run) signals() error {
	for {
		select {
		case <-s.Signals:
			if err := s.signal(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// idle waits for the end of a script that emits nothing.
func (s *run) idle(ctx context.Context) error {
	var due <-chan time.Time
	if len(s.packets.streams) > 0 {
		t := time.NewTicker(pollPackets)
		defer t.Stop()
		due = t.C
	}
	for {
		select {
		case <-due:
			if err := s.drainPackets(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		case <-s.Signals:
			if err := s.signal(); err != nil {
				return err
			}
		}
	}
}

// signal runs the probes of the signal.
func (s *run) signal() error {
	points, programs := s.called()
	for i, a := range points {
		if err := call(a, programs[i]); err != nil {
			return err
		}
	}
	return nil
}

// call runs a program.
func call(a *syntax.AttachPoint, p *ebpf.Program) error {
	if _, err := p.Run(&ebpf.RunOptions{}); err != nil {
		return fmt.Errorf("run %s: %w", a.Text, err)
	}
	return nil
}

// result is what a test or bench has done.
type result struct {
	value  int64  // that it returned
	errors int    // that it printed, or gave exit()
	text   string // that it printed, with what was said
}

// outcome calls the program of a test or bench some times, and handles its records apart from the others.
func (s *run) outcome(ctx context.Context, a *syntax.AttachPoint, p *ebpf.Program, times int) (r result, err error) {
	var text bytes.Buffer
	out, said, values := s.out, s.Stderr, *s.values
	values.JSON = false
	s.out, s.Stderr, s.result = output.New(&text, &values), &text, &r
	for i := range times {
		const drained = 16 // calls, whose records have room in the ring
		if err = call(a, p); err == nil && (i%drained == drained-1 || i == times-1) {
			err = s.drain(ctx)
		}
		if err != nil {
			break
		}
	}
	s.out, s.Stderr, s.result = out, said, nil
	r.text = text.String()
	if s.status != 0 {
		r.errors++
	}
	s.exited, s.status = false, 0
	return r, err
}

// after runs tests or benches after what begin has printed, unless that was the end.
func (s *run) after(ctx context.Context, then func(context.Context) error) error {
	if err := s.drain(ctx); err != nil || s.exited {
		return err
	}
	return then(ctx)
}

// tests runs the tests, and prints their results.
func (s *run) tests(ctx context.Context) error {
	points, programs := s.called()
	list := make([]output.Test, len(points))
	for i, a := range points {
		list[i].Name = a.Target
	}
	failed := false
	for i, a := range points {
		start := time.Now()
		r, err := s.outcome(ctx, a, programs[i], 1)
		if err != nil {
			return err
		}
		list[i].Time, list[i].Text = time.Since(start), r.text
		list[i].Failed = r.value != 0 || r.errors != 0
		failed = failed || list[i].Failed
		if err := s.out.Test(list, i); err != nil {
			return err
		}
	}
	if failed {
		s.status = 1
	}
	return nil
}

// benches measures the benches, and prints their results. A bench that returns a number that is not 0 is
// left out, one that prints an error has failed.
func (s *run) benches(ctx context.Context) error {
	stats, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME, linux/bpf.h
	if err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	defer stats.Close()
	points, programs := s.called()
	list := make([]output.Bench, len(points))
	for i, a := range points {
		list[i].Name = a.Target
	}
	failed := false
	for i, a := range points {
		r, err := s.measure(ctx, a, programs[i], &list[i])
		switch {
		case err != nil:
			return err
		case r.errors != 0:
			failed = true
			_, err = fmt.Fprintf(s.Stderr, "ERROR: Benchmark '%s' failed.\n", a.Target)
		case r.value == 0:
			err = s.out.Bench(list, i)
		}
		if err != nil {
			return err
		}
	}
	if failed {
		s.status = 1
	}
	return nil
}

// measure calls a bench until it has run for a millisecond in all.
func (s *run) measure(ctx context.Context, a *syntax.AttachPoint, p *ebpf.Program, b *output.Bench) (r result, err error) {
	const enough = time.Millisecond
	for b.Runs = 1; ; b.Runs *= 10 {
		before, err := p.Stats()
		if err != nil {
			return r, err
		}
		if r, err = s.outcome(ctx, a, p, b.Runs); err != nil || r.errors != 0 || r.value != 0 {
			return r, err
		}
		after, err := p.Stats()
		if err != nil {
			return r, err
		}
		took := after.Runtime - before.Runtime
		b.Average = took / time.Duration(b.Runs)
		if took >= enough || ctx.Err() != nil {
			return r, nil
		}
	}
}
