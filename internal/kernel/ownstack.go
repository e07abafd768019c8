package kernel

import "github.com/cilium/ebpf/asm"

// OwnStack returns instructions for the start of a program that make the kernel run it on the
// task's stack. After them R0 is 0, and the other registers are unchanged.
//
// Since 6.13 (arm64: 6.17) the kernel gives programs with 64 bytes of stack or more a private
// stack for each CPU, even if two runs share a CPU: a task that preempts another in a user
// probe overwrites the other's frame. It does not for programs that contain a tail call, even
// in unreachable code, which the verifier removes (bpf_enable_priv_stack and
// check_max_stack_depth, kernel/bpf/verifier.c).
func OwnStack() asm.Instructions {
	const own = ".ownstack"
	return asm.Instructions{
		asm.Mov.Imm(asm.R0, 0),
		asm.JEq.Imm(asm.R0, 0, own),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(own),
	}
}
