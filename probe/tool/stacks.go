package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"syscall"

	"github.com/borescope/borescope/escape"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/symbol"
)

// StackSample is a sample of a stack collector with its frames named, innermost
// first: functions that were inlined are frames of their own, and what has no
// name is the file that it is in, as "[libc.so.6]", or "[unknown]".
type StackSample struct {
	collect.Sample
	KernelNames, UserNames []string
	// WakerKernel and WakerUser are those of Sample.Waker, nil without one.
	WakerKernel, WakerUser []string
}

// RunStacks is Run for tools whose stacks are counted in the kernel: attach
// starts a collector (collect.Attach, collect.AttachWaits) for the given
// machine, and read, which body is given, returns what it counted since the last
// call, by process, thread and stacks. The collector is closed at the end.
//
// Processes are looked at when they are first seen, so that those that end
// before the run does have names too, and where the kernel can (Linux 5.17),
// their stacks are walked by call frame information from then on. Those of
// collect.Options.PIDs are from the first event on, with Options.Hold.
func (t *Tool) RunStacks(ctx context.Context, stdout io.Writer, start string, attach func(env *probe.Env) (*collect.Collector, error),
	body func(s *Session, read func() ([]StackSample, error)) error,
) error {
	st := &stacks{attach: attach, names: make(map[place][]string)}
	return t.run(ctx, stdout, start, st, func(s *Session) error {
		return body(s, func() ([]StackSample, error) { return st.read(s) })
	})
}

// stacks is the collector of a run.
type stacks struct {
	*collect.Collector
	attach func(env *probe.Env) (*collect.Collector, error)
	stop   func() error // ends the goroutine that looks at processes; nil if there is none
	before map[sampleKey]collect.Total
	names  map[place][]string
}

// place is an address in a process; the kernel is process -1.
type place struct {
	pid  int
	pc   uint64
	back uint64 // how far before the address: a return address is looked up in its call
}

const kernelPID = -1

func (st *stacks) replay(s *Session) (err error) {
	st.Collector, err = collect.Replay(s.tool.recording)
	return err
}

// kernelEvent stands for any: they need the same.
var kernelEvent = []probe.Target{probe.Tracepoint{Group: "sched", Name: "sched_switch"}}

func (st *stacks) requires(env *probe.Env) []probe.Requirement {
	return probe.Requires(env, kernelEvent)
}

func (st *stacks) open(s *Session) (err error) {
	if st.Collector, err = st.attach(s.tool.Env()); err != nil {
		return s.tool.explain(kernelEvent, err)
	}
	processes := s.processes()
	s.tool.explainPlan(st.Plan())
	// Before the run begins, so that with Options.Hold the first events count.
	err = st.LoadWalker()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return errors.Join(err, st.Collector.Close())
	}
	if errors.Is(err, syscall.ENOMEM) {
		escape.Fprintf(s.tool.Stderr, "%s: %s\n", s.tool.name, oneLine(err))
	}
	walks := err == nil
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- watch(ctx, st.Collector, walks, st.Processes(), processes) }()
	st.stop = func() error { cancel(); return <-done }
	return nil
}

// watch looks at processes when they are first seen. first is their stream,
// taken before it is recorded: a replay has their names already.
func watch(ctx context.Context, c *collect.Collector, walks bool, first mapx.Source, processes *symbol.Processes) error {
	var rec mapx.Record
	for {
		if err := first.ReadInto(ctx, &rec); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		pid, _, err := collect.ParseProcess(&rec)
		if err != nil {
			return err
		}
		_ = processes.Observe(pid) // of one that is gone the frames say that they have no names
		if walks {
			_ = c.AddProcess(pid) // what can't be read is walked by frame pointers
		}
	}
}

// Detach ends the looking at processes, then collecting.
func (st *stacks) Detach() error {
	var err error
	if st.stop != nil {
		err = st.stop()
		st.stop = nil
	}
	return errors.Join(err, st.Collector.Detach())
}

// Close does so, too, and frees the maps.
func (st *stacks) Close() error {
	return errors.Join(st.Detach(), st.Collector.Close())
}

func (st *stacks) lost(l *Lost) error {
	stats, err := st.Stats()
	if err != nil {
		return err
	}
	l.Entries, l.Firings = stats.LostFull+stats.LostWaits+stats.CutShort, stats.LostNested+stats.Missed+stats.Unwoken+stats.Unended+stats.Gaps
	return nil
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
			b = fmt.Appendf(b, "%x.%d,", f.PC, f.How)
		}
		b = fmt.Appendf(b, "%d/", s.End)
	}
	k.pcs = string(b)
	return k
}

// read returns what was counted since the last call.
func (st *stacks) read(s *Session) ([]StackSample, error) {
	samples, err := st.Samples()
	if err != nil {
		return nil, err
	}
	out := st.since(samples)
	for i := range out {
		if err := st.name(s, &out[i]); err != nil {
			return nil, err
		}
	}
	return merge(out), nil
}

// since takes what the last call was given off the samples.
func (st *stacks) since(samples []collect.Sample) (out []StackSample) {
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
		name := fmt.Sprintf("%v %q %q %q %q", k, sample.KernelNames, sample.UserNames, sample.WakerKernel, sample.WakerUser)
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

func (st *stacks) name(s *Session, sample *StackSample) (err error) {
	frames := func(pid int, frames []stack.Frame) (names []string) {
		for _, f := range frames {
			var more []string
			if more, err = st.frame(s, place{pid, f.LookupPC(), f.PC - f.LookupPC()}); err != nil {
				return nil
			}
			names = append(names, more...)
		}
		return names
	}
	sample.KernelNames = frames(kernelPID, sample.Kernel.Frames)
	sample.UserNames = frames(sample.PID, sample.User.Frames)
	if w := sample.Waker; w != nil {
		sample.WakerKernel = frames(kernelPID, w.Kernel.Frames)
		sample.WakerUser = frames(w.PID, w.User.Frames)
	}
	return err
}

// frame names an address, innermost function first.
func (st *stacks) frame(s *Session, at place) ([]string, error) {
	if names, ok := st.names[at]; ok {
		return names, nil
	}
	resolver, err := s.resolver(at.pid)
	if err != nil {
		return nil, err
	}
	names := []string{"[unknown]"}
	if resolver != nil {
		names = s.frameNames(resolver.Resolve(nil, []uint64{at.pc}), at.back)
	}
	st.names[at] = names
	return names, nil
}

// resolver names a process's addresses; it is nil if that can't be had.
func (s *Session) resolver(pid int) (symbol.Resolver, error) {
	if pid == kernelPID {
		return s.Kernel()
	}
	n := &s.names
	if r, ok := n.byPID[pid]; ok {
		return r, nil
	}
	r, err := s.Process(pid)
	if err != nil {
		r = nil // it has ended before anybody looked
	}
	if n.byPID == nil {
		n.byPID = make(map[int]symbol.Resolver)
	}
	n.byPID[pid] = r
	return r, nil
}

// frameNames are the names of an address that was looked up so many bytes before.
func (s *Session) frameNames(frames []symbol.Frame, back uint64) (names []string) {
	for _, f := range frames {
		switch {
		case f.Name != "" && s.tool.Offsets && !f.Inlined:
			names = append(names, fmt.Sprintf("%s+%#x", f.Name, f.Offset+back))
		case f.Name != "":
			names = append(names, f.Name)
		case f.Module != "":
			names = append(names, "["+trimBrackets(path.Base(f.Module))+"]")
		default:
			names = append(names, "[unknown]")
		}
	}
	return names
}

// trimBrackets is "vdso" of "[vdso]".
func trimBrackets(s string) string {
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		return s[1 : len(s)-1]
	}
	return s
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
