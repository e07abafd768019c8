package collect

import (
	"maps"
	"slices"
	"strings"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/profile"
	"github.com/borescope/borescope/stack/python"
	"github.com/borescope/borescope/symbol"
)

// Namer names the frames of samples, each address of a process once, however many samples
// have it. It is for one goroutine, and valid for as long as a pid means the same process.
type Namer struct {
	kernel   symbol.Resolver
	process  func(pid int) symbol.Resolver
	latest   map[int]symbol.Resolver // what process returned for a set of samples
	spaces   map[spaceKey]*space
	mappings map[profile.Mapping]*profile.Mapping
	wakers   map[*profile.NamedFrame]*profile.NamedFrame
	// functions has one slice for each function at an offset: processes share libraries.
	functions map[profile.Function][]profile.Function
	buf       []symbol.Frame

	windows bool // it is for windows of time
	round   int  // number of sets of samples
}

// spaceKey is a process, in a state that it was in if its states are known.
type spaceKey struct {
	pid   int
	state symbol.State
}

// space is what is known of the addresses of a process; the kernel is process kernelPID.
type space struct {
	frames  map[uint64]*profile.NamedFrame
	names   symbol.Resolver // nil: they have none
	fresh   []stack.Frame   // that are to be named
	version uint64
	round   int // in which it was used last
}

const kernelPID = -1

// A Namer of windows keeps the names of a process that was not sampled for so many of them, and of
// a process so many.
const (
	keepRounds = 60
	keepFrames = 4096
	// maxFunctions is how many functions are shared by windows.
	maxFunctions = 1 << 14
)

// NewNamer returns a Namer that takes the names of kernel addresses from kernel, and those
// of a process from the resolver that process returns (symbol.Process; for the functions of
// Python programs, Collector.Resolver around it). If that is a *symbol.Process or a symbol.Timed, addresses
// are named by what the process was when they were sampled (Sample.Start, First and Last). process is
// called once for each process of a set of samples. Where either is nil, frames stay without names.
func NewNamer(kernel symbol.Resolver, process func(pid int) symbol.Resolver) *Namer {
	return &Namer{
		kernel: kernel, process: process,
		latest:   make(map[int]symbol.Resolver),
		spaces:   make(map[spaceKey]*space),
		mappings: make(map[profile.Mapping]*profile.Mapping),
		wakers:   make(map[*profile.NamedFrame]*profile.NamedFrame),

		functions: make(map[profile.Function][]profile.Function),
	}
}

// Samples returns the samples with named frames, one for each of in, in the form that
// package profile writes. Count and Value are the values. The kernel's frames come before
// the program's, and interpreted ones where they ran. A waker's stack comes in reverse
// order below that of the thread it woke. Frames are shared between samples. Stopped takes the
// names into account: a walk by frame pointers cannot tell whether it reached the thread's
// start, but the outermost name can.
func (n *Namer) Samples(in []Sample) []profile.Sample {
	n.begin()
	n.resolveAll(in)
	out := make([]profile.Sample, 0, len(in))
	for i := range in {
		s := &in[i]
		frames := n.named(n.during(s.PID, s.Start, s), &s.Kernel, &s.User)
		end := ending(s, frames)
		if w := s.Waker; w != nil {
			frames = append(n.waker(w, s), frames...)
		}
		out = append(out, profile.Sample{
			Frames: frames, Values: []int64{int64(s.Count), s.Value}, Comm: s.Comm, PID: s.PID, TID: s.TID,
			Stopped: end,
		})
	}
	return out
}

// named is a process's stack, innermost frame first, with interpreted frames where they
// ran. All its addresses have been resolved.
func (n *Namer) named(of *space, kernel, user *stack.Stack) []*profile.NamedFrame {
	out := make([]*profile.NamedFrame, 0, len(kernel.Frames)+len(user.Frames))
	known := n.during(kernelPID, 0, nil).frames
	for _, f := range kernel.Frames {
		out = append(out, known[lookupPC(f)])
	}
	known = of.frames
	frames := user.Frames
	if len(frames) > 0 && frames[len(frames)-1].Source == stack.SourceInterpreter {
		inLoop := func(f stack.Frame) bool {
			return isFunction(known[lookupPC(f)], pythonLoop)
		}
		frames = python.Merge(nil, frames, user.Stopped == stack.StopBottom, inLoop)
	}
	for _, f := range frames {
		if named := known[lookupPC(f)]; !isFunction(named, pythonShim) {
			out = append(out, named)
		}
	}
	return out
}

// waker is the stack of a sample's waker, outermost frame first.
func (n *Namer) waker(w *Waker, s *Sample) []*profile.NamedFrame {
	frames := n.named(n.during(w.PID, w.Start, s), &w.Kernel, &w.User)
	slices.Reverse(frames)
	for i, f := range frames {
		if n.wakers[f] == nil {
			as := *f
			as.Kind = profile.FrameWaker
			n.wakers[f] = &as
		}
		frames[i] = n.wakers[f]
	}
	return frames
}

// isFunction reports whether a frame is one of this function; the cold part of one
// has a suffix.
func isFunction(f *profile.NamedFrame, name string) bool {
	return len(f.Functions) > 0 && strings.HasPrefix(f.Functions[0].Name, name)
}

// begin forgets the names of processes that were not sampled for long.
func (n *Namer) begin() {
	n.round++
	clear(n.latest)
	if !n.windows {
		return
	}
	clear(n.wakers)
	if len(n.functions) > maxFunctions {
		clear(n.functions)
	}
	maps.DeleteFunc(n.spaces, func(_ spaceKey, s *space) bool { return n.round-s.round > keepRounds })
}

// during returns what is known of a process in the time of a sample, which may be nil, without names
// that were found before it changed.
func (n *Namer) during(pid int, start uint64, of *Sample) *space {
	names, state := n.resolver(pid), symbol.State{}
	if of != nil {
		names, state = symbol.During(names, start, of.First, of.Last)
	}
	key := spaceKey{pid, state}
	s := n.spaces[key]
	if s == nil {
		s = &space{frames: make(map[uint64]*profile.NamedFrame)}
		n.spaces[key] = s
	}
	if s.round == n.round {
		return s
	}
	s.names = names
	if !n.windows {
		s.round = n.round
		return s
	}
	v := state.Version()
	if pid == kernelPID {
		v = 1 // its symbols were read once
	}
	if v == 0 || v != s.version || len(s.frames) > keepFrames {
		s.frames = make(map[uint64]*profile.NamedFrame)
	}
	maps.DeleteFunc(s.frames, func(_ uint64, f *profile.NamedFrame) bool { return !lasting(f) })
	s.version, s.round = v, n.round
	return s
}

// lasting reports whether an address keeps the name for as long as the process has the same
// mappings. One without a name may get one; generated code may give way to other.
func lasting(f *profile.NamedFrame) bool {
	return f != nil && f.Kind != profile.FrameJIT && f.Source != stack.SourceInterpreter &&
		len(f.Functions) > 0 && f.Mapping != nil
}

// resolveAll names every address of the samples, one process at a time.
func (n *Namer) resolveAll(in []Sample) {
	kernel := n.during(kernelPID, 0, nil)
	for i := range in {
		s := &in[i]
		kernel.add(s.Kernel.Frames)
		n.during(s.PID, s.Start, s).add(s.User.Frames)
		if w := s.Waker; w != nil {
			kernel.add(w.Kernel.Frames)
			n.during(w.PID, w.Start, s).add(w.User.Frames)
		}
	}
	for _, s := range n.spaces {
		n.resolve(s, s == kernel)
	}
}

// add has those of frames be named that were not seen before.
func (s *space) add(frames []stack.Frame) {
	for _, f := range frames {
		pc := lookupPC(f)
		if _, seen := s.frames[pc]; !seen {
			s.frames[pc] = nil
			s.fresh = append(s.fresh, f)
		}
	}
}

// resolve names the fresh frames of a process.
func (n *Namer) resolve(s *space, kernel bool) {
	known, fresh := s.frames, s.fresh
	if len(fresh) == 0 {
		return
	}
	s.fresh = nil
	pcs := make([]uint64, len(fresh))
	for i, f := range fresh {
		pcs[i] = lookupPC(f)
	}
	n.buf = n.buf[:0]
	if s.names != nil {
		n.buf = s.names.Resolve(n.buf, pcs)
	} else {
		for i := range pcs {
			n.buf = append(n.buf, symbol.Frame{Index: i})
		}
	}
	for rest := n.buf; len(rest) > 0; {
		end := 1
		for end < len(rest) && rest[end].Index == rest[0].Index {
			end++
		}
		i := rest[0].Index
		known[pcs[i]] = n.frame(fresh[i], rest[:end], kernel)
		rest = rest[end:]
	}
}

func (n *Namer) resolver(pid int) symbol.Resolver {
	switch {
	case pid == kernelPID:
		return n.kernel
	case n.process == nil:
		return nil
	}
	r, ok := n.latest[pid]
	if !ok {
		r = n.process(pid)
		n.latest[pid] = r
	}
	return r
}

// frame is a frame with what is known of its address.
func (n *Namer) frame(f stack.Frame, syms []symbol.Frame, kernel bool) *profile.NamedFrame {
	out := &profile.NamedFrame{Frame: f, Kind: profile.FrameUser}
	switch {
	case kernel:
		out.Kind = profile.FrameKernel
	case syms[0].Kind == symbol.KindJIT:
		out.Kind = profile.FrameJIT
	}
	out.Uncertain = syms[0].Reason == symbol.ReasonChanged
	for i := range syms {
		s := &syms[i]
		if s.Name != "" {
			out.Functions = n.function(out.Functions, profile.Function{
				Name: s.Name, Offset: s.Offset, File: s.File, Line: s.Line, Column: s.Column,
				NoLine: s.NoLine.String(),
			})
		}
		if s.Module != "" {
			out.Mapping = n.mapping(profile.Mapping{File: s.Module, BuildID: s.BuildID})
		}
	}
	return out
}

// function appends a function. The first one is in a slice that is shared.
func (n *Namer) function(to []profile.Function, f profile.Function) []profile.Function {
	if len(to) > 0 {
		return append(slices.Clip(to), f)
	}
	one := n.functions[f]
	if one == nil {
		one = []profile.Function{f}
		n.functions[f] = one
	}
	return one
}

// mapping returns the one pointer for equal mappings.
func (n *Namer) mapping(m profile.Mapping) *profile.Mapping {
	if n.mappings[m] == nil {
		n.mappings[m] = &m
	}
	return n.mappings[m]
}

// ending returns why a sample's stack ends.
func ending(s *Sample, frames []*profile.NamedFrame) stack.StopReason {
	if len(s.User.Frames) == 0 {
		return s.Kernel.Stopped
	}
	if len(frames) > 0 && slices.ContainsFunc(frames[len(frames)-1].Functions, startsThread) {
		return stack.StopBottom
	}
	if s.User.Stopped == stack.StopUnknown {
		return stack.StopSuspect
	}
	return s.User.Stopped
}

// startsThread reports whether a thread's outermost frame may be of that function.
func startsThread(fn profile.Function) bool {
	switch fn.Name {
	case "_start", "main", "start_thread", "thread_start", "clone", "clone3", "__clone", "__clone3",
		"__clone_internal", "_dl_start", "_dl_start_user", "runtime.goexit", "runtime.mstart",
		"runtime.rt0_go", "runtime.sigreturn__sigaction":
		return true
	}
	for _, prefix := range []string{
		"__libc_start_", "_rt0_", "runtime.goexit.", "runtime.mstart.",
		"runtime.rt0_go.",
	} {
		if strings.HasPrefix(fn.Name, prefix) {
			return true
		}
	}
	return false
}
