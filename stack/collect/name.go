package collect

import (
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
	frames   map[place]*profile.NamedFrame
	mappings map[profile.Mapping]*profile.Mapping
	wakers   map[*profile.NamedFrame]*profile.NamedFrame
	buf      []symbol.Frame
}

// place is an address of a process; the kernel is process kernelPID.
type place struct {
	pid int
	pc  uint64
}

const kernelPID = -1

// NewNamer returns a Namer that takes the names of kernel addresses from kernel, and those
// of a process from the resolver that process returns (symbol.Process; for the functions of
// Python programs, Collector.Resolver around it). process is called once for each process
// of a set of samples. Where either is nil, frames stay without names.
func NewNamer(kernel symbol.Resolver, process func(pid int) symbol.Resolver) *Namer {
	return &Namer{
		kernel: kernel, process: process,
		frames:   make(map[place]*profile.NamedFrame),
		mappings: make(map[profile.Mapping]*profile.Mapping),
		wakers:   make(map[*profile.NamedFrame]*profile.NamedFrame),
	}
}

// Samples returns the samples with named frames, one for each of in, in the form that
// package profile writes. Count and Value are the values. The kernel's frames come before
// the program's, and interpreted ones where they ran. A waker's stack comes in reverse
// order below that of the thread it woke. Frames are shared between samples. Stopped takes the
// names into account: a walk by frame pointers cannot tell whether it reached the thread's
// start, but the outermost name can.
func (n *Namer) Samples(in []Sample) []profile.Sample {
	n.resolveAll(in)
	out := make([]profile.Sample, 0, len(in))
	for i := range in {
		s := &in[i]
		frames := n.named(s.PID, &s.Kernel, &s.User)
		end := ending(s, frames)
		if w := s.Waker; w != nil {
			frames = append(n.waker(w), frames...)
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
func (n *Namer) named(pid int, kernel, user *stack.Stack) []*profile.NamedFrame {
	out := make([]*profile.NamedFrame, 0, len(kernel.Frames)+len(user.Frames))
	for _, f := range kernel.Frames {
		out = append(out, n.frames[place{kernelPID, lookupPC(f)}])
	}
	frames := user.Frames
	if len(frames) > 0 && frames[len(frames)-1].Source == stack.SourceInterpreter {
		inLoop := func(f stack.Frame) bool {
			return isFunction(n.frames[place{pid, lookupPC(f)}], pythonLoop)
		}
		frames = python.Merge(nil, frames, user.Stopped == stack.StopBottom, inLoop)
	}
	for _, f := range frames {
		if named := n.frames[place{pid, lookupPC(f)}]; !isFunction(named, pythonShim) {
			out = append(out, named)
		}
	}
	return out
}

// waker is a waker's stack, outermost frame first.
func (n *Namer) waker(w *Waker) []*profile.NamedFrame {
	frames := n.named(w.PID, &w.Kernel, &w.User)
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

// resolveAll names every address of the samples, one process at a time.
func (n *Namer) resolveAll(in []Sample) {
	fresh := make(map[int][]stack.Frame)
	add := func(pid int, kernel, user *stack.Stack) {
		fresh[kernelPID] = n.fresh(fresh[kernelPID], kernelPID, kernel.Frames)
		fresh[pid] = n.fresh(fresh[pid], pid, user.Frames)
	}
	for i := range in {
		s := &in[i]
		add(s.PID, &s.Kernel, &s.User)
		if w := s.Waker; w != nil {
			add(w.PID, &w.Kernel, &w.User)
		}
	}
	for pid, frames := range fresh {
		n.resolve(pid, frames)
	}
}

// fresh appends those of a process's frames to dst that were not seen before.
func (n *Namer) fresh(dst []stack.Frame, pid int, frames []stack.Frame) []stack.Frame {
	for _, f := range frames {
		at := place{pid, lookupPC(f)}
		if _, seen := n.frames[at]; !seen {
			n.frames[at] = nil
			dst = append(dst, f)
		}
	}
	return dst
}

// resolve names fresh frames of a process.
func (n *Namer) resolve(pid int, fresh []stack.Frame) {
	if len(fresh) == 0 {
		return
	}
	pcs := make([]uint64, len(fresh))
	for i, f := range fresh {
		pcs[i] = lookupPC(f)
	}
	n.buf = n.buf[:0]
	if r := n.resolver(pid); r != nil {
		n.buf = r.Resolve(n.buf, pcs)
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
		n.frames[place{pid, pcs[i]}] = n.frame(fresh[i], rest[:end], pid == kernelPID)
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
	return n.process(pid)
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
	for i := range syms {
		s := &syms[i]
		if s.Name != "" {
			out.Functions = append(out.Functions, profile.Function{
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
