package main

import (
	"strings"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/profile"
	"github.com/borescope/borescope/stack/python"
	"github.com/borescope/borescope/symbol"
)

// names turns addresses into named frames, each address of a process once.
type names struct {
	kernel  symbol.Resolver
	process func(pid int) symbol.Resolver

	frames   map[place]*profile.NamedFrame
	mappings map[profile.Mapping]*profile.Mapping
	buf      []symbol.Frame
}

// place is an address in a process; the kernel is process -1.
type place struct {
	pid int
	pc  uint64
}

const kernelPID = -1

func newNames(kernel symbol.Resolver, process func(pid int) symbol.Resolver) *names {
	return &names{
		kernel: kernel, process: process,
		frames:   make(map[place]*profile.NamedFrame),
		mappings: make(map[profile.Mapping]*profile.Mapping),
	}
}

// samples names what was collected.
func (n *names) samples(in []collect.Sample) []profile.Sample {
	n.resolve(in)
	out := make([]profile.Sample, 0, len(in))
	for i := range in {
		s := &in[i]
		frames := make([]*profile.NamedFrame, 0, len(s.Kernel.Frames)+len(s.User.Frames))
		for _, f := range s.Kernel.Frames {
			frames = append(frames, n.frames[place{kernelPID, lookupPC(f)}])
		}
		for _, f := range n.merged(s) {
			named := n.frames[place{s.PID, lookupPC(f)}]
			if !isFunction(named, pythonShim) {
				frames = append(frames, named)
			}
		}
		out = append(out, profile.Sample{
			Frames: frames,
			Values: []int64{int64(s.Count)},
			Comm:   s.Comm,
			PID:    s.PID,
			TID:    s.TID,
			End:    ending(s, frames),
		})
	}
	return out
}

// merged puts a sample's interpreted frames where they ran.
func (n *names) merged(s *collect.Sample) []stack.Frame {
	frames := s.User.Frames
	if len(frames) == 0 || frames[len(frames)-1].How != stack.HowInterpreter {
		return frames
	}
	inLoop := func(f stack.Frame) bool { return isFunction(n.frames[place{s.PID, lookupPC(f)}], pythonLoop) }
	return python.Merge(nil, frames, s.User.End == stack.EndBottom, inLoop)
}

// isFunction says whether a frame is one of this function.
func isFunction(f *profile.NamedFrame, name string) bool {
	return len(f.Functions) > 0 && strings.HasPrefix(f.Functions[0].Name, name) // the cold part has a suffix
}

// resolve names every address of the samples, one process at a time.
func (n *names) resolve(in []collect.Sample) {
	pcs := make(map[int][]stack.Frame)
	seen := make(map[place]bool)
	collectPCs := func(pid int, frames []stack.Frame) {
		for _, f := range frames {
			p := place{pid, lookupPC(f)}
			if !seen[p] {
				seen[p] = true
				pcs[pid] = append(pcs[pid], f)
			}
		}
	}
	for i := range in {
		collectPCs(kernelPID, in[i].Kernel.Frames)
		collectPCs(in[i].PID, in[i].User.Frames)
	}
	for pid, frames := range pcs {
		n.resolveIn(pid, frames)
	}
}

func (n *names) resolveIn(pid int, frames []stack.Frame) {
	r := n.kernel
	if pid != kernelPID {
		r = n.process(pid)
	}
	lookup := make([]uint64, len(frames))
	for i, f := range frames {
		lookup[i] = lookupPC(f)
	}
	n.buf = r.Resolve(n.buf[:0], lookup)
	for rest := n.buf; len(rest) > 0; {
		end := 1
		for end < len(rest) && rest[end].Index == rest[0].Index {
			end++
		}
		i := rest[0].Index
		n.frames[place{pid, lookup[i]}] = n.named(frames[i], rest[:end], pid == kernelPID)
		rest = rest[end:]
	}
}

// named converts the frames of one address.
func (n *names) named(f stack.Frame, syms []symbol.Frame, kernel bool) *profile.NamedFrame {
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
			})
		}
		if s.Module != "" {
			out.Mapping = n.mapping(profile.Mapping{File: s.Module, BuildID: s.BuildID})
		}
	}
	return out
}

// mapping returns the one pointer for equal mappings.
func (n *names) mapping(m profile.Mapping) *profile.Mapping {
	if n.mappings[m] == nil {
		n.mappings[m] = &m
	}
	return n.mappings[m]
}

// ending says why a sample's stack ends. A walk by frame pointers does not know
// whether it reached the thread's start; the outermost name does.
func ending(s *collect.Sample, frames []*profile.NamedFrame) stack.End {
	if len(s.User.Frames) == 0 {
		return s.Kernel.End
	}
	for _, fn := range frames[len(frames)-1].Functions {
		if startsThread(fn.Name) {
			return stack.EndBottom
		}
	}
	if s.User.End == stack.EndUnknown {
		return stack.EndSuspect
	}
	return s.User.End
}

// startsThread says whether a thread's outermost frame may have this name.
func startsThread(name string) bool {
	switch name {
	case "_start", "main", "start_thread", "thread_start", "clone", "clone3", "__clone", "__clone3",
		"__clone_internal", "_dl_start", "_dl_start_user", "runtime.goexit", "runtime.mstart",
		"runtime.rt0_go", "runtime.sigreturn__sigaction":
		return true
	}
	for _, prefix := range []string{"__libc_start_", "_rt0_", "runtime.goexit.", "runtime.mstart.", "runtime.rt0_go."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
