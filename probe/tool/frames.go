package tool

import (
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/profile"
	"github.com/borescope/borescope/symbol"
)

// UserNames names a user stack that a program kept with Ctx.Ustack, innermost
// first, as StackSample does; the first 0 ends it. Of a process that has ended
// and was not observed before (Observe), no frame has a name.
func (s *Session) UserNames(pid int, pcs []uint64) []string {
	return s.namesOf([]collect.Sample{{PID: pid, User: stack.Stack{Frames: framesOf(pcs)}}})[0].user
}

// KernelNames is UserNames for Ctx.Kstack.
func (s *Session) KernelNames(pcs []uint64) []string {
	return s.namesOf([]collect.Sample{{Kernel: stack.Stack{Frames: framesOf(pcs)}}})[0].kernel
}

// framesOf are the frames of a stack whose first address is where it was taken.
func framesOf(pcs []uint64) (frames []stack.Frame) {
	for i, pc := range pcs {
		if pc == 0 {
			break
		}
		frames = append(frames, stack.Frame{PC: pc, Return: i > 0})
	}
	return frames
}

// stackNames are the functions of a stack, innermost first.
type stackNames struct{ kernel, user []string }

// namesOf names samples, all in one call: the first names of the kernel cost least so.
func (s *Session) namesOf(samples []collect.Sample) []stackNames {
	out := make([]stackNames, len(samples))
	for i, named := range s.namer().Samples(samples) {
		for _, f := range named.Frames {
			names := &out[i].user
			if f.Kind == profile.FrameKernel {
				names = &out[i].kernel
			}
			*names = f.AppendNames(*names, s.tool.Offsets)
		}
	}
	return out
}

// namer names frames, live or as recorded.
func (s *Session) namer() *collect.Namer {
	n := &s.names
	if n.frames == nil {
		byPID := make(map[int]symbol.Resolver)
		n.frames = collect.NewNamer(kernelNames{s}, func(pid int) symbol.Resolver {
			r, known := byPID[pid]
			if !known {
				r, _ = s.process(pid) // nil: it has ended before anybody looked
				byPID[pid] = r
			}
			return r
		})
	}
	return n.frames
}

// kernelNames opens the kernel's symbols when the first address is to be named. If that
// fails, it ends the run.
type kernelNames struct{ s *Session }

// Resolve implements symbol.Resolver.
func (k kernelNames) Resolve(dst []symbol.Frame, pcs []uint64) []symbol.Frame {
	kernel, err := k.s.kernel()
	if err == nil {
		return kernel.Resolve(dst, pcs)
	}
	k.s.out.keep(err)
	for i := range pcs {
		dst = append(dst, symbol.Frame{Index: i})
	}
	return dst
}
