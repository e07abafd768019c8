package stack

// LBRFrames appends to dst the stack of a branch stack in call stack mode
// (PERF_SAMPLE_BRANCH_CALL_STACK, "perf record --call-graph lbr"): ip, and the calls that
// have not returned, innermost first. branches are pairs of from and to, newest first, as
// in PerfSample. The ip of an event in the kernel is a kernel address: pass 0 instead.
//
// The processor keeps 16 to 32 calls, and only those of user code. The stop reason is
// StopNone without an ip and calls, StopLimit if there are limit calls (the number that the
// processor keeps; 0 if it is not known), else StopUnknown: there may be more calls.
func LBRFrames(dst []Frame, ip uint64, branches [][2]uint64, limit int) ([]Frame, StopReason) {
	const from, to = 0, 1
	if ip == 0 && len(branches) > 0 {
		ip = branches[0][to] // where the last call went
	}
	if ip == 0 {
		return dst, StopNone
	}
	dst = append(dst, Frame{PC: ip, Source: SourceRegs})
	for _, b := range branches {
		if b[from] == 0 {
			break
		}
		// The call's own address, not the one that it returns to.
		dst = append(dst, Frame{PC: b[from], Source: SourceLBR})
	}
	if limit > 0 && len(branches) >= limit {
		return dst, StopLimit
	}
	return dst, StopUnknown
}
