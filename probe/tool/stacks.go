package tool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/profile"
)

// StackSample is a sample of a stack collector and the names of its frames, innermost first
// (profile.NamedFrame.AppendNames).
type StackSample struct {
	collect.Sample
	KernelNames, UserNames []string
	// WakerKernel and WakerUser are the names of Sample.Waker's stacks, nil without one.
	WakerKernel, WakerUser []string
}

// Stacks is the collector of a run, live or replayed, and names its samples.
type Stacks struct {
	// Collector counts the stacks. The run closes it.
	*collect.Collector

	run    *Run
	before map[sampleKey]collect.Total
}

// RunStacks is Run for tools that count stacks in the kernel. attach starts a collector
// (collect.Attach, collect.AttachWaits) for the given machine; targets, which default to the
// scheduler's tracepoint sched_switch, are what -requires and errors refer to. body reads
// what the collector counted.
//
// Mappings of processes are read when the processes are first seen, so that those that end
// before the run have names, too. From then on, if the kernel supports it (Linux 5.17), their
// stacks are walked with call frame information. For the processes of Tool.PID and similar
// flags that holds from the first event on if collect.Options.Hold is set.
func (t *Tool) RunStacks(ctx context.Context, stdout *Output, start string,
	attach func(env *probe.Env) (*collect.Collector, error),
	body func(r *Run, st *Stacks) error, targets ...probe.Target,
) error {
	if targets == nil {
		targets = []probe.Target{probe.Tracepoint{Group: "sched", Name: "sched_switch"}}
	}
	st := &stackRun{attach: attach, targets: targets}
	return t.run(ctx, stdout, start, st, func(r *Run) error { return body(r, &st.Stacks) })
}

// stackRun is the source of RunStacks.
type stackRun struct {
	Stacks

	attach  func(env *probe.Env) (*collect.Collector, error)
	targets []probe.Target // for -requires
	stop    func() error   // of Collector.Watch; nil if it was not called
}

func (st *stackRun) replay(r *Run) (err error) {
	st.run = r
	st.Collector, err = collect.Replay(r.tool.recording)
	return err
}

func (st *stackRun) requires(env *probe.Env) []probe.Requirement {
	return probe.Requires(env, st.targets)
}

func (st *stackRun) open(r *Run) (err error) {
	st.run = r
	if st.Collector, err = st.attach(r.tool.Env()); err != nil {
		return r.tool.Explain(st.targets, err)
	}
	r.tool.Options.Env = nil // the collector frees it after loading
	r.names.collector = st.Collector
	r.tool.explainPlan(st.Plan())
	// All stacks of the chosen processes are to be whole, the first ones too.
	if r.tool.chosen() != nil {
		if err := st.loadWalker(); err != nil {
			return errors.Join(err, st.Collector.Close())
		}
	}
	// Before recording starts: a replay does not watch processes, since it has their names.
	st.stop = st.Watch(r.processes(), st.explainWalker)
	return nil
}

// loadWalker loads the walker of user stacks if the kernel supports it.
func (st *stackRun) loadWalker() error {
	err := st.LoadWalker()
	st.explainWalker(err)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// explainWalker prints why the walker could not be loaded if there is not enough memory for it,
// since more may be made available.
func (st *stackRun) explainWalker(err error) {
	if errors.Is(err, syscall.ENOMEM) {
		st.run.tool.Stderr.Printf("%s: %s\n", st.run.tool.name, oneLine(err))
	}
}

// Detach stops watching processes, then collecting.
func (st *stackRun) Detach() error {
	var err error
	if st.stop != nil {
		err = st.stop()
		st.stop = nil
	}
	return errors.Join(err, st.Collector.Detach())
}

// Close does the same, and frees the maps.
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

// Profile returns everything that was counted so far, with names, for the formats of package
// profile. The values of a sample are its count and collect.Sample.Value; the caller sets
// SampleTypes to their meanings.
func (st *Stacks) Profile() (*profile.Profile, error) {
	samples, err := st.Samples()
	if err != nil {
		return nil, err
	}
	r := st.run
	began := r.data.Began.Round(0) // as a recording has it
	return &profile.Profile{
		Samples: r.namer().Samples(samples), Time: began, Duration: r.Now().Round(0).Sub(began),
	}, nil
}

// sampleKey identifies a sample.
type sampleKey struct {
	pid, tid, program, wakerPID, wakerTID int
	comm, wakerComm, pcs                  string
	first                                 uint64
}

func keyOf(s *collect.Sample) sampleKey {
	k := sampleKey{pid: s.PID, tid: s.TID, program: s.Program, comm: s.Comm, first: s.First}
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

// Read returns the counts since the previous call, by process, thread and stacks.
func (st *Stacks) Read() ([]StackSample, error) {
	samples, err := st.Samples()
	if err != nil {
		return nil, err
	}
	fresh := st.since(samples)
	var all []collect.Sample // each waker follows the sample that it woke
	for i := range fresh {
		s := fresh[i].Sample
		s.Waker = nil
		if all = append(all, s); fresh[i].Waker != nil {
			w := fresh[i].Waker
			all = append(all, collect.Sample{
				PID: w.PID, Start: w.Start, First: s.First, Last: s.Last, Kernel: w.Kernel, User: w.User,
			})
		}
	}
	named := st.run.namesOf(all)
	for i := range fresh {
		s := &fresh[i]
		s.KernelNames, s.UserNames, named = named[0].kernel, named[0].user, named[1:]
		if s.Waker != nil {
			s.WakerKernel, s.WakerUser, named = named[0].kernel, named[0].user, named[1:]
		}
	}
	return merge(fresh), nil
}

// since subtracts the counts of the previous call from the samples.
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

// merge adds up samples that print the same: calls from several places of one function, or
// stacks that were walked in two ways.
func merge(samples []StackSample) (out []StackSample) {
	at := make(map[string]int)
	for _, sample := range samples {
		k := keyOf(&sample.Sample)
		k.pcs, k.first = "", 0
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

// Outermost returns a stack in the order of folded stacks, from its outermost frame to its
// innermost.
func Outermost(names []string) []string {
	out := slices.Clone(names)
	slices.Reverse(out)
	return out
}

// Stack prints a stack as BCC's tools do: one name on each line.
func (r *Run) Stack(names []string) {
	for _, name := range names {
		r.Printf("    %s\n", name)
	}
}
