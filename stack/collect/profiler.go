package collect

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/profile"
	"github.com/borescope/borescope/symbol"
)

// Profiler makes profiles of what a Collector collects: it watches processes (Collector.Watch)
// and names addresses of the kernel, of processes, also of those that ended, of generated code
// and of Python programs. It is safe for concurrent use.
//
//	c, err := collect.Attach(targets, &collect.Options{Windows: true})
//	if err != nil {
//		return err
//	}
//	p, err := collect.NewProfiler(c, nil)
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	…
//	prof, err := p.Window() // since the last call
//	err = profile.WriteSVG(w, prof.Folded(nil), nil)
type Profiler struct {
	c         *Collector
	processes *symbol.Processes
	kernel    *symbol.Kernel // nil if its symbols can't be read
	kernelErr error
	names     *Namer       // guarded by mu
	close     func() error // once

	mu       sync.Mutex
	unwalked error     // guarded by mu
	began    time.Time // guarded by mu: the window
}

// NewProfiler starts to watch the processes of a live Collector, which it owns from then on, also
// if it fails. o are the options for naming processes; nil is the default. Where the kernel's
// symbols can't be read (Unnamed), its frames have no names.
func NewProfiler(c *Collector, o *symbol.Options) (*Profiler, error) {
	if c == nil || c.filter == nil {
		return nil, errors.Join(errors.New("collect: a Profiler is of a live Collector"), c.Close())
	}
	p := &Profiler{c: c, processes: symbol.NewProcesses(o), began: time.Now()}
	p.kernel, p.kernelErr = symbol.OpenKernel(nil)
	p.names = p.namer()
	stop := c.Watch(p.processes, func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.unwalked = err
	})
	p.close = sync.OnceValue(func() error {
		err := stop() // the watcher may be about to say why it does not walk, with mu
		p.mu.Lock()
		defer p.mu.Unlock()
		return errors.Join(err, p.c.Close(), p.processes.Close())
	})
	return p, nil
}

// Collector returns what collects, for Stats. It is the Profiler's.
func (p *Profiler) Collector() *Collector { return p.c }

// Unnamed returns why frames of the kernel have no names, and why user stacks are walked by frame
// pointers; nil if neither is so. The second may become known some tens of milliseconds after
// NewProfiler.
func (p *Profiler) Unnamed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.kernelErr, p.unwalked)
}

// Profile returns what was collected since NewProfiler or the last Window. After Close the error
// matches os.ErrClosed.
func (p *Profiler) Profile() (*profile.Profile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.profile(p.c.Samples())
}

// Window is Profile, and begins a new window of time: every sample is in exactly one. The
// Collector needs Options.Windows.
func (p *Profiler) Window() (*profile.Profile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, err := p.profile(p.c.ReadAndClear())
	if err == nil {
		p.began = p.began.Add(out.Duration)
	}
	return out, err
}

// namer returns a Namer of windows, which keeps the names of what did not change.
func (p *Profiler) namer() *Namer {
	var kernel symbol.Resolver
	if p.kernel != nil {
		kernel = p.kernel
	}
	names := NewNamer(kernel, func(pid int) symbol.Resolver {
		process, err := p.processes.Process(pid)
		if err != nil {
			return nil // it had ended before it was seen
		}
		return p.c.Resolver(pid, process)
	})
	names.windows = true
	return names
}

// profile names samples that were just read. The caller holds mu.
func (p *Profiler) profile(samples []Sample, err error) (*profile.Profile, error) {
	if err != nil {
		return nil, err
	}
	took := time.Since(p.began)
	out := &profile.Profile{Samples: p.names.Samples(samples), Time: p.began, Duration: took}
	p.c.describe(out)
	return out, nil
}

// Close stops collecting and frees everything, the Collector too. Closing again does nothing,
// and returns the same error.
func (p *Profiler) Close() error { return p.close() }

// describe says what the values of a live collector's samples are.
func (c *Collector) describe(p *profile.Profile) {
	switch {
	case c.filter.waits == Wakeups:
		p.SampleTypes = []profile.ValueType{{Type: "wakeups", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}}
	case c.filter.waits != 0:
		p.SampleTypes = []profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}}
	case c.filter.value != "":
		p.SampleTypes = []profile.ValueType{{Type: "samples", Unit: "count"}, {Type: c.filter.value, Unit: "count"}}
	default:
		Describe(p, c.plan.Programs[0].Sites[0].Target)
	}
}

// Describe sets the types of values and the period of a profile whose samples have the count of
// samples of a target as their first value: of a clock's samples at a frequency, the time that
// they stand for is the second one. It returns what was sampled in words: "cpu-clock at 99 Hz".
func Describe(p *profile.Profile, target probe.Target) (what string) {
	t, ok := target.(probe.Perf)
	p.SampleTypes = []profile.ValueType{{Type: "samples", Unit: "count"}}
	cpu := int64(0) // nanoseconds for each sample
	switch event := t.Event.String(); {
	case !ok:
		if target != nil {
			what = target.String()
		}
	case t.Period != 0:
		what = fmt.Sprintf("%s every %d", event, t.Period)
		p.PeriodType, p.Period = profile.ValueType{Type: event, Unit: "count"}, int64(t.Period)
	default:
		what = fmt.Sprintf("%s at %d Hz", event, t.Freq)
		if t.Freq != 0 && (event == "cpu-clock" || event == "task-clock") {
			cpu = int64(time.Second) / int64(t.Freq)
			p.PeriodType, p.Period = profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, cpu
			p.SampleTypes = append(p.SampleTypes, p.PeriodType)
		}
	}
	for i := range p.Samples {
		values := append(p.Samples[i].Values[:1:1], p.Samples[i].Values[0]*cpu)
		p.Samples[i].Values = values[:len(p.SampleTypes)]
	}
	return what
}
