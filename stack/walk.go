package stack

// Walker walks a stack.
//
// Walk writes the frames, innermost first, into dst and returns how many they
// are and why there is no further one. It does not change r, allocates nothing,
// and ends after len(dst) frames whatever the memory holds. A Walker has scratch
// space of its own: one goroutine at a time.
type Walker interface {
	Walk(dst []Frame, r *Regs, mem Memory) (int, End)
}

// stepper goes from frame to frame.
type stepper interface {
	// caller returns the frame that f was called from; EndUnknown says that there is
	// one. It may find out what f is only by looking at its caller, and changes f then.
	caller(f *Frame, mem Memory) (Frame, End)
}

// begin writes the innermost frame; EndUnknown says that there is one.
func begin(dst []Frame, r *Regs) (int, End) {
	pc, ok := r.Reg(r.pcNum())
	switch {
	case !ok:
		return 0, EndNone
	case len(dst) == 0:
		return 0, EndLimit
	}
	dst[0] = Frame{PC: pc, How: HowRegs}
	return 1, EndUnknown
}

// walk is the loop of the walkers.
func walk(dst []Frame, r *Regs, mem Memory, s stepper) (int, End) {
	n, end := begin(dst, r)
	for end == EndUnknown {
		var f Frame
		f, end = s.caller(&dst[n-1], mem)
		switch {
		case end != EndUnknown:
		case n == len(dst):
			end = EndLimit
		default:
			dst[n] = f
			n++
		}
	}
	return n, end
}
