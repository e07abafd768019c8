package stack

import "debug/elf"

// Walker walks a stack.
//
// Walk writes the frames, innermost first, into dst and returns their number and the reason
// why there is no further one. It does not change r, allocates nothing, and ends after
// len(dst) frames for any contents of the memory. A Walker has scratch space of its own: it
// is for one goroutine at a time.
type Walker interface {
	Walk(dst []Frame, r *Regs, mem Memory) (int, StopReason)
}

// stepper goes from frame to frame.
type stepper interface {
	// caller returns the frame that f was called from; StopUnknown means that there is one.
	// It may learn the kind of f only from its caller, and changes f then.
	caller(f *Frame, mem Memory) (Frame, StopReason)
}

// begin writes the innermost frame; StopUnknown means that there is one, and that it has a caller to look for.
func begin(dst []Frame, r *Regs) (int, StopReason) {
	pc, ok := r.Reg(r.pcNum())
	switch {
	case !ok:
		return 0, StopNone
	case len(dst) == 0:
		return 0, StopLimit
	}
	dst[0] = Frame{PC: pc, Source: SourceRegs}
	if r.Machine == elf.EM_ARM { // there is no walker for its stacks
		return 1, StopCompat
	}
	return 1, StopUnknown
}

// walk is the loop of the walkers.
func walk(dst []Frame, r *Regs, mem Memory, s stepper) (int, StopReason) {
	n, end := begin(dst, r)
	for end == StopUnknown {
		var f Frame
		f, end = s.caller(&dst[n-1], mem)
		switch {
		case end != StopUnknown:
		case n == len(dst):
			end = StopLimit
		default:
			dst[n] = f
			n++
		}
	}
	return n, end
}
