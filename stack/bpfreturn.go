package stack

import "github.com/cilium/ebpf/asm"

// firstReturn finds the innermost return probe that the thread is in.
func (g *bpfGen) firstReturn() {
	r := g.w.Returns
	const none = "stack_walk_noret"
	g.add(asm.Mov.Imm(asm.R1, -1))
	g.store(stSlot, asm.R1)
	g.add(
		asm.FnGetCurrentTask.Call(),
		asm.Mov.Reg(asm.R3, asm.R0),
	)
	for _, off := range []int{r.Task, r.Instances} {
		g.add(asm.Add.Imm(asm.R3, int32(off)))
		g.readKernel(8, none)
		g.load(asm.R3, stBuf)
		g.add(asm.JEq.Imm(asm.R3, 0, none))
	}
	g.nextReturn(none)
	g.label(none)
}

// readKernel copies size bytes of kernel memory at R3 to the state's buffer, or
// goes to bad.
func (g *bpfGen) readKernel(size int32, bad string) {
	g.add(
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Add.Imm(asm.R1, stBuf),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadKernel.Call(),
		asm.JNE.Imm(asm.R0, 0, bad),
	)
}

// nextReturn reads the return probe whose address is in R3, or goes to none.
func (g *bpfGen) nextReturn(none string) {
	r := g.w.Returns
	lo, hi := min(r.Next, r.Stack, r.Addr), max(r.Next, r.Stack, r.Addr)
	g.add(asm.Mov.Imm(asm.R1, -1))
	g.store(stSlot, asm.R1)
	g.add(asm.JEq.Imm(asm.R3, 0, none), asm.Add.Imm(asm.R3, int32(lo)))
	g.readKernel(int32(hi-lo+8), none)
	for _, f := range []struct {
		off int
		at  int16
	}{{r.Stack, stSlot}, {r.Addr, stAddr}, {r.Next, stNext}} {
		g.load(asm.R1, int16(stBuf+f.off-lo))
		g.store(f.at, asm.R1)
	}
}

// putBack replaces R8, which was found where the return address lies, by the
// address that a return probe has put away. The stack pointer that the kernel
// noted when the function was entered, which is R9+off here, tells which
// instance is whose; functions that were left by longjmp have theirs until the
// next return probe (handle_trampoline, kernel/events/uprobes.c), and are passed
// over. label begins the labels.
func (g *bpfGen) putBack(off int32, label string) {
	if g.w.Returns == nil {
		return
	}
	done, passed := label+"_done", label+"_passed"
	g.add(asm.Mov.Reg(asm.R1, asm.R9), asm.Add.Imm(asm.R1, off))
	g.load(asm.R2, stSlot)
	g.add(
		asm.JGT.Reg(asm.R2, asm.R1, done),
		asm.JLT.Reg(asm.R2, asm.R1, passed),
	)
	g.load(asm.R8, stAddr)
	g.label(passed)
	g.load(asm.R3, stNext)
	g.nextReturn(done)
	g.label(done)
}
