package bpfwalk

import "github.com/cilium/ebpf/asm"

// walkReturns finds the innermost return probe that the thread is in.
func (g *bpfGen) walkReturns() {
	const none = "stack_walk_noret"
	g.Add(asm.Mov.Imm(asm.R1, -1))
	g.store(stSlot, asm.R1)
	g.firstReturn(stBuf, none)
	g.takeReturn(none)
	g.Label(none)
}

// takeReturn makes the return probe whose address is in R3 the next to be met,
// or goes to none.
func (g *bpfGen) takeReturn(none string) {
	g.Add(asm.Mov.Imm(asm.R1, -1))
	g.store(stSlot, asm.R1)
	g.Add(asm.JEq.Imm(asm.R3, 0, none))
	g.readReturn(stBuf, stSlot, stAddr, none)
	g.store(stNext, asm.R3)
}

// firstReturn leaves the address of the thread's innermost return probe in R3,
// or goes to none. It uses 8 bytes of the state at buf.
func (g *bpfGen) firstReturn(buf int16, none string) {
	g.Add(
		asm.FnGetCurrentTask.Call(),
		asm.Mov.Reg(asm.R3, asm.R0),
	)
	for _, off := range []int{g.w.Returns.Task, g.w.Returns.Instances} {
		g.Add(asm.Add.Imm(asm.R3, int32(off)))
		g.readKernel(int32(buf), 8, none)
		g.load(asm.R3, buf)
		g.Add(asm.JEq.Imm(asm.R3, 0, none))
	}
}

// readReturn reads the return probe at R3 to two places of the state, and leaves
// the address of the one after it, or 0, in R3. If it can't, it goes to bad.
func (g *bpfGen) readReturn(buf, slot, addr int16, bad string) {
	r := g.w.Returns
	lo, hi := min(r.Next, r.Stack, r.Addr), max(r.Next, r.Stack, r.Addr)
	g.Add(asm.Add.Imm(asm.R3, int32(lo)))
	g.readKernel(int32(buf), int32(hi-lo+8), bad)
	g.load(asm.R1, buf+int16(r.Stack-lo))
	g.store(slot, asm.R1)
	g.load(asm.R1, buf+int16(r.Addr-lo))
	g.store(addr, asm.R1)
	g.load(asm.R3, buf+int16(r.Next-lo))
}

// readKernel copies size bytes of kernel memory at R3 to the state, or goes to bad.
func (g *bpfGen) readKernel(buf, size int32, bad string) {
	g.Add(
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Add.Imm(asm.R1, buf),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadKernel.Call(),
		asm.JNE.Imm(asm.R0, 0, bad),
	)
}

// putBack replaces R8, the value found in place of the return address, by the address that
// a return probe has put away. Instances are told apart by the stack pointer that the
// kernel noted when the function was entered, which is R9+off here. Functions that were
// left by longjmp keep theirs until the next return probe (handle_trampoline,
// kernel/events/uprobes.c), and are passed over. label begins the labels.
func (g *bpfGen) putBack(off int32, label string) {
	if g.w.Returns == nil {
		return
	}
	done, passed := label+"_done", label+"_passed"
	g.Add(asm.Mov.Reg(asm.R1, asm.R9), asm.Add.Imm(asm.R1, off))
	g.load(asm.R2, stSlot)
	g.Add(
		asm.JGT.Reg(asm.R2, asm.R1, done),
		asm.JLT.Reg(asm.R2, asm.R1, passed),
	)
	g.load(asm.R8, stAddr)
	g.Label(passed)
	g.load(asm.R3, stNext)
	g.takeReturn(done)
	g.Label(done)
}
