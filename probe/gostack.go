package probe

import (
	"debug/elf"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"

	"github.com/borescope/borescope/internal/elffile"
)

// stackGuards are the offsets of g.stackguard0 and stackguard1.
const stackGuard0, stackGuard1 = 16, 24

// maxStackCheck is the length of the longest stack check, in bytes.
const maxStackCheck = 64

// behindStackCheck is the offset of the instruction behind the check that a Go
// function begins with (cmd/internal/obj/x86 and arm64, stacksplit), 0 if it
// begins with none. When the stack has to grow, or the goroutine is to be
// preempted, the function calls runtime.morestack there and begins anew, so that
// a probe on its first instruction fires once more. The check touches no
// register that holds an argument, and not the stack pointer.
func behindStackCheck(f *elffile.File, s elfSymbol) uint64 {
	text, err := code(f, s.value, min(s.size, maxStackCheck))
	if err != nil {
		return 0
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return x86StackCheck(text)
	case elf.EM_AARCH64:
		return arm64StackCheck(text)
	}
	return 0
}

// x86StackCheck knows the three forms of the check, by the size of the frame:
//
//	cmp rsp, [r14+16]                                        jbe
//	lea r12, [rsp-N];               cmp r12, [r14+16];       jbe
//	mov r12, rsp; sub r12, N; jb;   cmp r12, [r14+16];       jbe
//
// Functions of ABI0 load g into r14, or rcx, first.
func x86StackCheck(text []byte) uint64 {
	compared := false
	for off := 0; off < len(text); {
		n, err := x86asm.Decode(text[off:], 64)
		if err != nil {
			return 0
		}
		off += n.Len
		switch n.Op {
		case x86asm.CMP:
			m, ok := n.Args[1].(x86asm.Mem)
			compared = ok && (m.Base == x86asm.R14 || m.Base == x86asm.RCX) && (m.Disp == stackGuard0 || m.Disp == stackGuard1)
			if !compared {
				return 0
			}
		case x86asm.JBE:
			if !compared {
				return 0
			}
			return uint64(off)
		case x86asm.LEA, x86asm.MOV, x86asm.SUB:
			if r := n.Args[0]; r != x86asm.R12 && r != x86asm.R14 && r != x86asm.RCX || compared {
				return 0
			}
		case x86asm.JB: // the frame is larger than the stack pointer
		default:
			return 0
		}
	}
	return 0
}

// arm64StackCheck knows them too:
//
//	ldr x16, [x28, #16]; cmp sp, x16                                    b.ls
//	ldr x16, [x28, #16]; sub x17, sp, #N;            cmp x17, x16;      b.ls
//	ldr x16, [x28, #16]; mov x27, #N; subs x17, sp, x27; b.lo; cmp x17, x16; b.ls
func arm64StackCheck(text []byte) uint64 {
	guard := false
	for off := 0; off+4 <= len(text); {
		n, err := arm64asm.Decode(text[off:])
		if err != nil {
			return 0
		}
		off += 4
		switch n.Op {
		case arm64asm.LDR:
			m, ok := n.Args[1].(arm64asm.MemImmediate)
			if !ok || guard || n.Args[0] != arm64asm.X16 || m.Base != arm64asm.RegSP(arm64asm.X28) {
				return 0
			}
			if s := m.String(); s != "[X28,#16]" && s != "[X28,#24]" {
				return 0
			}
			guard = true
		case arm64asm.B:
			cond, ok := n.Args[0].(arm64asm.Cond)
			if !ok || !guard {
				return 0
			}
			if cond.String() == "LS" {
				return uint64(off)
			}
		case arm64asm.CMP, arm64asm.SUB, arm64asm.SUBS, arm64asm.MOV, arm64asm.MOVK, arm64asm.ADD, arm64asm.ORR:
			if !guard {
				return 0
			}
		default:
			return 0
		}
	}
	return 0
}
