package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/borescope/borescope/escape"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/profile"
	"github.com/borescope/borescope/symbol"
)

// StackSample is a sample of a stack collector with its frames named, innermost
// first (profile.NamedFrame.AppendNames).
type StackSample struct {
	collect.Sample
	KernelNames, UserNames []string
	// WakerKernel and WakerUser are those of Sample.Waker, nil without one.
	WakerKernel, WakerUser []string
}

// Stacks is the collector of a run, live or replayed, with names for what it counted.
type Stacks struct {
	// Collector is what counts. The run closes it.
	*collect.Collector

	session *Session
	before  map[sampleKey]collect.Total
}

// RunStacks is Run for tools whose stacks are counted in the kernel: attach
// starts a collector (collect.Attach, collect.AttachWaits) for the given
// machine, to targets, or to the scheduler's tracepoints without any; body reads what
// it counted.
//
// Processes are looked at when they are first seen, so that those that end
// before the run does have names too, and where the kernel can (Linux 5.17),
// their stacks are walked by call frame information from then on. Those of
// Tool.PID and its like are from the first event on, with collect.Options.Hold.
func (t *Tool) RunStacks(ctx context.Context, stdout io.Writer, start string,
	attach func(env *probe.Env) (*collect.Collector, error),
	body func(s *Session, st *Stacks) error, targets ...probe.Target,
) error {
	if targets == nil {
		targets = []probe.Target{probe.Tracepoint{Group: "sched", Name: "sched_switch"}}
	}
	st := &stackRun{attach: attach, targets: targets}
	return t.run(ctx, stdout, start, st, func(s *Session) error { return body(s, &st.Stacks) })
}

// stackRun is the source of RunStacks.
type stackRun struct {
	Stacks

	attach  func(env *probe.Env) (*collect.Collector, error)
	targets []probe.Target // what -requires is asked about
	stop    func() error   // ends the goroutine that looks at processes; nil if there is none
}

func (st *stackRun) replay(s *Session) (err error) {
	st.session = s
	st.Collector, err = collect.Replay(s.tool.recording)
	return err
}

func (st *stackRun) requires(env *probe.Env) []probe.Requirement {
	return probe.Requires(env, st.targets)
}

func (st *stackRun) open(s *Session) (err error) {
	st.session = s
	if st.Collector, err = st.attach(s.tool.Env()); err != nil {
		return s.tool.explain(st.targets, err)
	}
	s.tool.Options.Env = nil // the collector gives it up when it has loaded all
	s.names.collector = st.Collector
	s.tool.explainPlan(st.Plan())
	// All stacks of what was chosen are to be whole, the first ones too.
	if s.tool.chosen() != nil {
		if err := st.loadWalker(); err != nil {
			return errors.Join(err, st.Collector.Close())
		}
	}
	// before they are recorded: a replay has their names
	first, processes := st.Processes(), s.processes()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- st.watch(ctx, first, processes) }()
	st.stop = func() error { cancel(); return <-done }
	return nil
}

// loadWalker loads the walker of user stacks, if it can be had; where there is no
// memory for it, it says so, since more could be given.
func (st *stackRun) loadWalker() error {
	err := st.LoadWalker()
	if errors.Is(err, syscall.ENOMEM) {
		escape.Fprintf(st.session.tool.Stderr, "%s: %s\n", st.session.tool.name, oneLine(err))
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// watch looks at processes when they are first seen.
func (st *stackRun) watch(ctx context.Context, first mapx.Source,
	processes *symbol.Processes,
) error {
	add, join := st.walkUserStacks(ctx)
	for rec := (mapx.Record{}); ; {
		if err := first.ReadInto(ctx, &rec); err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return errors.Join(err, join())
		}
		pid, _, err := collect.ParseProcess(&rec)
		if err != nil {
			return errors.Join(err, join())
		}
		_ = processes.Observe(pid) // of one that is gone the frames say that they have no names
		add(pid)
	}
}

// walkUserStacks loads the walker and gives it the processes that are added, beside the
// caller, who has to look at others meanwhile: the rules of a large program take a
// while to compile.
func (st *stackRun) walkUserStacks(ctx context.Context) (add func(pid int), join func() error) {
	pids := make(chan int, 1<<14)
	done := make(chan error, 1)
	go func() {
		err := st.loadWalker()
		for pid := range pids {
			if err == nil && ctx.Err() == nil {
				_ = st.AddProcess(pid) // what can't be read is walked by frame pointers
			}
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

// Detach ends the looking at processes, then collecting.
func (st *stackRun) Detach() error {
	var err error
	if st.stop != nil {
		err = st.stop()
		st.stop = nil
	}
	return errors.Join(err, st.Collector.Detach())
}

// Close does so, too, and frees the maps.
func (st *stackRun) Close() error {
	return errors.Join(st.Detach(), st.Collector.Close())
}

func (st *stackRun) lost(l *Lost) error {
	stats, err := st.Stats()
	if err != nil {
		return err
	}
	l.Entries = stats.LostFull + stats.LostWaits + stats.CutShort
	l.Firings = stats.LostNested + stats.Missed + stats.Unwoken + stats.Unended + stats.Gaps
	return nil
}

// Profile returns all that was counted so far, named, for the formats of package
// profile: a sample's values are its count and collect.Sample.Value, of which
// SampleTypes says nothing yet.
func (st *Stacks) Profile() (*profile.Profile, error) {
	samples, err := st.Samples()
	if err != nil {
		return nil, err
	}
	s := st.session
	began := s.data.Began.Round(0) // as it is recorded
	return &profile.Profile{
		Samples: s.namer().Samples(samples), Time: began, Duration: s.Now().Round(0).Sub(began),
	}, nil
}

// sampleKey tells samples apart.
type sampleKey struct {
	pid, tid, program, wakerPID, wakerTID int
	comm, wakerComm, pcs                  string
}

func keyOf(s *collect.Sample) sampleKey {
	k := sampleKey{pid: s.PID, tid: s.TID, program: s.Program, comm: s.Comm}
	stacks := []*stack.Stack{&s.Kernel, &s.User}
	if w := s.Waker; w != nil {
		k.wakerPID, k.wakerTID, k.wakerComm = w.PID, w.TID, w.Comm
		stacks = append(stacks, &w.Kernel, &w.User)
	}
	var b []byte
	for _, s := range stacks {
		for _, f := range s.Frames {
			b = fmt.Appendf(b, "%x.%d,", f.PC, f.Source)
		}
		b = fmt.Appendf(b, "%d/", s.Stopped)
	}
	k.pcs = string(b)
	return k
}

// Read returns what was counted since the last call, by process, thread and stacks.
func (st *Stacks) Read() ([]StackSample, error) {
	samples, err := st.Samples()
	if err != nil {
		return nil, err
	}
	fresh := st.since(samples)
	var all []collect.Sample // wakers as samples of their own, behind those that they woke
	for i := range fresh {
		s := fresh[i].Sample
		s.Waker = nil
		if all = append(all, s); fresh[i].Waker != nil {
			w := fresh[i].Waker
			all = append(all, collect.Sample{PID: w.PID, Kernel: w.Kernel, User: w.User})
		}
	}
	named := st.session.namesOf(all)
	for i := range fresh {
		s := &fresh[i]
		s.KernelNames, s.UserNames, named = named[0].kernel, named[0].user, named[1:]
		if s.Waker != nil {
			s.WakerKernel, s.WakerUser, named = named[0].kernel, named[0].user, named[1:]
		}
	}
	return merge(fresh), nil
}

// since takes what the last call was given off the samples.
func (st *Stacks) since(samples []collect.Sample) (out []StackSample) {
	now := make(map[sampleKey]collect.Total, len(samples))
	for _, sample := range samples {
		k := keyOf(&sample)
		now[k] = collect.Total{Count: sample.Count, Sum: sample.Value}
		sample.Count -= st.before[k].Count
		sample.Value -= st.before[k].Sum
		if sample.Count > 0 {
			out = append(out, StackSample{Sample: sample})
		}
	}
	st.before = now
	return out
}

// merge adds up samples that look the same: calls from several places of one
// function, or walked in two ways.
func merge(samples []StackSample) (out []StackSample) {
	at := make(map[string]int)
	for _, sample := range samples {
		k := keyOf(&sample.Sample)
		k.pcs = ""
		name := fmt.Sprintf("%v %q %q %q %q", k, sample.KernelNames, sample.UserNames, sample.WakerKernel,
			sample.WakerUser)
		if i, ok := at[name]; ok {
			out[i].Count += sample.Count
			out[i].Value += sample.Value
			continue
		}
		at[name] = len(out)
		out = append(out, sample)
	}
	return out
}

// Outermost returns a stack from its outermost frame to its innermost, as folded
// stacks are written.
func Outermost(names []string) []string {
	out := slices.Clone(names)
	slices.Reverse(out)
	return out
}

// Stack prints a stack as BCC's tools do: a name on each line.
func (s *Session) Stack(names []string) {
	for _, name := range names {
		s.Printf("    %s\n", name)
	}
}
