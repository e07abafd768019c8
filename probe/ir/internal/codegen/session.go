package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir/internal/check"
)

// kfunc calls a kernel function of session programs, with the context. They take it since
// Linux 7.0; before, they take no arguments.
func (g *runtime) kfunc(name string) {
	g.emit(asm.Mov.Reg(asm.R1, g.ctxReg()))
	g.kernelCall(name)
}

// isReturn loads 1 into R0 at a return, and 0 at an entry.
func (g *runtime) isReturn() {
	g.kfunc(check.KfuncIsReturn)
	g.emit(asm.And.Imm(asm.R0, 1))
}

// clearCookie clears the cookie at the entry of a kprobe session, even if the program is
// disabled. Otherwise the kernel passes on what an earlier call left there: fprobe does not
// clear the memory that it reserves for its entry handler (kernel/trace/fprobe.c). The
// cookies of uprobe and tracing sessions begin with 0.
func (g *runtime) clearCookie() {
	returns := g.label()
	g.isReturn()
	g.emit(asm.JNE.Imm(asm.R0, 0, returns))
	g.kfunc(check.KfuncCookie)
	g.emit(asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord))
	g.Label(returns)
}

// kernelCall calls a kernel function, with its arguments in place, by its id in the plan's
// BTF, which is that of the kernel that the plan is for.
func (g *runtime) kernelCall(name string) {
	f, err := check.KernelFunc(g.plan, name)
	if err != nil {
		g.fail("%w", err)
		return
	}
	id, err := g.plan.BTF.TypeID(f)
	if err != nil {
		g.fail("%w", err)
		return
	}
	if !GPLCompatible(check.License(g.prog)) {
		g.fail("%s needs a licence that is compatible with the GPL, which %q is not", name,
			check.License(g.prog))
	}
	g.emit(asm.Instruction{
		OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall,
		Constant: int64(id),
	})
}
