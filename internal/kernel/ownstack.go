package kernel

import "github.com/cilium/ebpf/asm"

// OwnStack returns instructions for the start of a program, after which R0 is 0 and
// the other registers are as they were: they have the kernel run it on the stack of
// the task. Since 6.13 (arm64: 6.17) it gives programs of 64 bytes of stack or more
// one for each CPU, also where two runs share a CPU: a task that preempts another in a
// user probe overwrites what that has in its frame. It doesn't where a program calls
// another (bpf_enable_priv_stack and check_max_stack_depth, kernel/bpf/verifier.c), be
// it in code that is never reached, which the verifier removes.
func OwnStack() asm.Instructions {
	const own = ".ownstack"
	return asm.Instructions{
		asm.Mov.Imm(asm.R0, 0),
		asm.JEq.Imm(asm.R0, 0, own),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(own),
	}
}
