package rules

import "debug/elf"

// DefaultPACMask has every bit above a 48-bit address except 55, which selects the kernel's or
// the user's half (Arm ARM, "Pointer authentication").
const DefaultPACMask = 0xff7f_0000_0000_0000

// ReturnReg returns the DWARF number under which return addresses are described.
func ReturnReg(m elf.Machine) uint64 {
	switch m {
	case elf.EM_AARCH64:
		return 30 // x30, the link register
	case elf.EM_386:
		return 8
	}
	return 16
}

// EpilogueCode is the code, under EpilogueMask, that ends a function on amd64: "add $n, %rsp;
// ret" with n below 128.
const (
	EpilogueMask = 0xff_00_ff_ff_ff
	EpilogueCode = 0xc3_00_c4_83_48
)

// Offsets of the registers that the kernel saves below a signal handler, from the stack pointer
// in the trampoline: struct rt_sigframe of arch/x86/kernel and arch/arm64/kernel/signal.c.
const (
	AMD64SigRegs = 40               // uc.uc_mcontext
	AMD64SigRSP  = 40 + 15*8        // its rsp
	ARM64SigRegs = 128 + 176 + 8    // info, then uc.uc_mcontext.regs
	ARM64SigLen  = (31 + 1 + 1) * 8 // x0 … x30, sp, pc
)

// AMD64SigOrder is the order of registers in struct sigcontext, in DWARF numbers:
// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
var AMD64SigOrder = [...]int{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16}

// Offsets of i386's struct sigcontext from the stack pointer in the trampoline, where the handler
// has just returned to it (struct sigframe_ia32 and rt_sigframe_ia32 of
// arch/x86/include/asm/sigframe.h), and of registers in it.
const (
	I386SigContext   = 4
	I386RtSigContext = 12 + 128 + 20 // signal, addresses, siginfo, then uc.uc_mcontext
	I386SigRegs      = 16
	I386SigESP       = 28
)

// I386SigOrder is the order of registers in struct sigcontext from I386SigRegs on, in DWARF
// numbers: edi, esi, ebp, esp, ebx, edx, ecx, eax, trapno and err, eip, cs; -1 is no register.
var I386SigOrder = [...]int{7, 6, 5, 4, 3, 2, 1, 0, -1, -1, 8, -1}

// The size of the kernel's stacks on amd64, and its struct pt_regs, in bytes.
const (
	ThreadSize  = 16384
	AMD64Regs   = 168 // sizeof(struct pt_regs)
	AMD64RegsCS = 136 // offset of its cs
)

// KernelEntry is struct pt_regs in DWARF numbers: r15, r14, r13, r12, rbp, rbx, r11 to r8, rax,
// rcx, rdx, rsi, rdi, orig_ax, rip, cs, flags, rsp; -1 is no register.
var KernelEntry = [...]int{15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, -1, 16, -1, -1, 7}

// KernelEntry386 is KernelEntry for 32-bit code.
var KernelEntry386 = [...]int{-1, -1, -1, -1, 5, 3, -1, -1, -1, -1, 0, 1, 2, 6, 7, -1, 8, -1, -1, 4}

// Offsets of fields in the Go runtime's g.
const (
	GoMOfG     = 48 // g.m
	GoSchedOfG = 56 // g.sched: sp, then pc
)
