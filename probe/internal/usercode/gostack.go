package usercode

import (
	"debug/elf"
	"encoding/binary"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/insn"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// maxStackCheck is the length of the longest stack check, in bytes.
const maxStackCheck = 64

// BehindStackCheck returns the offset of the instruction behind the stack check at the start
// of a Go function (cmd/internal/obj/x86 and arm64, stacksplit), or 0 if it has none. When the
// stack has to grow, or the goroutine is to be preempted, the check calls runtime.morestack
// and the function starts again, so a probe on its first instruction fires again. The check
// changes no register that holds an argument, and not the stack pointer.
func BehindStackCheck(f *elffile.File, s userfile.Symbol) uint64 {
	text, err := userfile.Code(f, s.Value, min(s.Size, maxStackCheck))
	if err != nil {
		return 0
	}
	return stackCheckEnd(f.Machine, text)
}

// checkPart is the role of an instruction in a stack check.
type checkPart uint8

const (
	other   checkPart = iota // not part of a check
	prepare                  // loads g, or computes the stack pointer that the function will have
	wrapped                  // jumps if the frame is larger than the stack pointer
	compare                  // compares with g.stackguard0, in the runtime's C functions stackguard1
	leave                    // jumps if the stack is too small: the last instruction
)

// stackCheckEnd is BehindStackCheck for code.
func stackCheckEnd(m elf.Machine, text []byte) (end uint64) {
	compared := false
	// Code that cannot be decoded has no check.
	_ = insn.Walk(m, text, func(off int, in insn.Inst) bool {
		switch stackCheckPart(m, text[off:off+in.Len]) {
		case prepare:
			return !compared
		case compare:
			compared = true
			return true
		case wrapped:
			return true
		case leave:
			if compared {
				end = uint64(off + in.Len)
			}
		}
		return false
	})
	return end
}

func stackCheckPart(m elf.Machine, code []byte) checkPart {
	if m == elf.EM_AARCH64 {
		return arm64StackCheck(binary.LittleEndian.Uint32(code))
	}
	return x86StackCheck(string(code))
}

// x86StackCheck recognizes the three forms of the check, by the size of the frame:
//
//	cmp rsp, [r14+16]                                        jbe
//	lea r12, [rsp-N];               cmp r12, [r14+16];       jbe
//	mov r12, rsp; sub r12, N; jb;   cmp r12, [r14+16];       jbe
//
// Functions of ABI0 load g into r14, or rcx, first.
func x86StackCheck(code string) checkPart {
	for _, f := range x86Parts {
		if strings.HasPrefix(code, f.begins) {
			return f.part
		}
	}
	return other
}

// x86Parts identifies instructions by their first bytes: all encodings of these that the
// assembler uses. No other instructions begin with them.
var x86Parts = []struct {
	begins string
	part   checkPart
}{
	{"\x49\x3b\x66\x10", compare}, // cmp rsp, [r14+16]
	{"\x49\x3b\x66\x18", compare}, // cmp rsp, [r14+24]
	{"\x4d\x3b\x66\x10", compare}, // cmp r12, [r14+16]
	{"\x4d\x3b\x66\x18", compare}, // cmp r12, [r14+24]
	{"\x48\x3b\x61\x10", compare}, // cmp rsp, [rcx+16]
	{"\x48\x3b\x61\x18", compare}, // cmp rsp, [rcx+24]
	{"\x4c\x3b\x61\x10", compare}, // cmp r12, [rcx+16]
	{"\x4c\x3b\x61\x18", compare}, // cmp r12, [rcx+24]
	{"\x76", leave},               // jbe, near and far
	{"\x0f\x86", leave},
	{"\x72", wrapped}, // jb
	{"\x0f\x82", wrapped},
	{"\x4c\x8d\x64\x24", prepare}, // lea r12, [rsp-N]
	{"\x4c\x8d\xa4\x24", prepare},
	{"\x49\x89\xe4", prepare}, // mov r12, rsp
	{"\x49\x83\xec", prepare}, // sub r12, N
	{"\x49\x81\xec", prepare},
	{"\x64\x48\x8b\x0c\x25", prepare}, // mov rcx, fs:[-8]
	{"\x64\x4c\x8b\x34\x25", prepare}, // mov r14, fs:[-8]
	{"\x48\xc7\xc1", prepare},         // mov rcx, -8
	{"\x49\xc7\xc6", prepare},         // mov r14, -8
	{"\x48\x8b\x0d", prepare},         // mov rcx, [rip+N]: g's offset, in libraries
	{"\x4c\x8b\x35", prepare},         // mov r14, [rip+N]
	{"\x64\x48\x8b\x09", prepare},     // mov rcx, fs:[rcx]
	{"\x64\x4d\x8b\x36", prepare},     // mov r14, fs:[r14]
}

// arm64StackCheck recognizes the same three forms:
//
//	ldr x16, [x28, #16]; cmp sp, x16                                    b.ls
//	ldr x16, [x28, #16]; sub x17, sp, #N;            cmp x17, x16;      b.ls
//	ldr x16, [x28, #16]; mov x27, #N; subs x17, sp, x27; b.lo; cmp x17, x16; b.ls
func arm64StackCheck(code uint32) checkPart {
	switch code {
	case 0xeb3063ff, 0xeb10023f: // cmp sp, x16; cmp x17, x16
		return compare
	case 0xf9400b90, 0xf9400f90: // ldr x16, [x28, #16], [x28, #24]
		return prepare
	case 0xeb3b63f1, 0xcb3b63f1: // subs x17, sp, x27; sub
		return prepare
	}
	switch code & 0xff00001f {
	case 0x54000003: // b.lo
		return wrapped
	case 0x54000009: // b.ls
		return leave
	}
	switch code & 0xff8003ff {
	case 0xd10003f1, 0xf10003f1: // sub x17, sp, #N; subs
		return prepare
	}
	switch code & 0xff80001f {
	case 0xd280001b, 0x9280001b, 0xf280001b, 0xb200001b: // mov x27, #N: movz, movn, movk, orr
		return prepare
	}
	return other
}
