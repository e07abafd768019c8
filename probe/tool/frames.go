package tool

import (
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/profile"
	"github.com/borescope/borescope/symbol"
)

// UserNames returns the names of a user stack that a program kept with Ctx.Ustack, innermost
// first, as in StackSample. The first 0 in pcs ends the stack. No frame has a name if the
// process has ended and was not observed before (Observe). The names are those of what the process has mapped
// now, or had last: if the program keeps Ctx.Nsecs too, call UserNamesAt.
func (r *Run) UserNames(pid int, pcs []uint64) []string {
	return r.namesOf([]collect.Sample{{PID: pid, User: stack.Stack{Frames: framesOf(pcs)}}})[0].user
}

// UserNamesAt is UserNames for a stack of which it is known when it was taken, a value of Ctx.Nsecs: addresses
// have the names of what the process ran and had mapped then, also if it executed another program since, or
// another process has its number.
func (r *Run) UserNamesAt(pid int, nsecs uint64, pcs []uint64) []string {
	r.names.hear(nsecs)
	return r.namesOf([]collect.Sample{{
		PID: pid, First: nsecs, Last: nsecs, User: stack.Stack{Frames: framesOf(pcs)},
	}})[0].user
}

// KernelNames is UserNames for Ctx.Kstack.
func (r *Run) KernelNames(pcs []uint64) []string {
	return r.namesOf([]collect.Sample{{Kernel: stack.Stack{Frames: framesOf(pcs)}}})[0].kernel
}

// framesOf returns the frames of a stack that begins with the sampled address; the others are
// return addresses.
func framesOf(pcs []uint64) (frames []stack.Frame) {
	for i, pc := range pcs {
		if pc == 0 {
			break
		}
		frames = append(frames, stack.Frame{PC: pc, Return: i > 0})
	}
	return frames
}

// stackNames has the names of a stack's functions, innermost first.
type stackNames struct{ kernel, user []string }

// namesOf names samples in one call, because the kernel's symbols cost most when they are
// first used.
func (r *Run) namesOf(samples []collect.Sample) []stackNames {
	out := make([]stackNames, len(samples))
	for i, named := range r.namer().Samples(samples) {
		for _, f := range named.Frames {
			names := &out[i].user
			if f.Kind == profile.FrameKernel {
				names = &out[i].kernel
			}
			*names = f.AppendNames(*names, r.tool.Offsets)
		}
	}
	return out
}

// namer returns the namer of frames, live or from the recording.
func (run *Run) namer() *collect.Namer {
	n := &run.names
	if n.frames == nil {
		byPID := make(map[int]symbol.Resolver)
		n.frames = collect.NewNamer(kernelNames{run}, func(pid int) symbol.Resolver {
			r, known := byPID[pid]
			if !known {
				if p, err := run.process(pid); err == nil { // else it had ended before
					r = counted{p, &n.unnamed}
				}
				byPID[pid] = r
			}
			return r
		})
	}
	return n.frames
}

// kernelNames resolves kernel addresses. It opens the kernel's symbols when the first address
// is to be named; if that fails, it ends the run.
type kernelNames struct{ s *Run }

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
