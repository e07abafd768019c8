package usdt

import (
	"bytes"
	"debug/elf"
)

var (
	nop5  = []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}
	nop10 = []byte{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00}
)

// nop returns the kind of the instruction at a file offset, as Site.Nop has it.
func (f *File) nop(off uint64) string {
	b, err := f.f.Bytes(off, min(11, uint64(f.f.Size())-off))
	if err != nil {
		return ""
	}
	if f.Machine == elf.EM_X86_64 || f.Machine == elf.EM_386 {
		return nopX86(b)
	}
	if f.Machine == elf.EM_ARM || f.Machine == elf.EM_RISCV {
		if len(b) >= 2 && plainNop(f.Machine, uint32(f.f.Order.Uint16(b)), 2) {
			return "nop"
		}
	}
	if f.Machine == elf.EM_S390 && len(b) >= 2 && b[0] == 0x07 && b[1]&0xf0 == 0 {
		return "nop" // nopr: bcr 0,r
	}
	if len(b) >= 4 && plainNop(f.Machine, f.f.Order.Uint32(b), 4) {
		return "nop"
	}
	return ""
}

func nopX86(b []byte) string {
	switch {
	case bytes.HasPrefix(b, nop5):
		return "nop5"
	case len(b) == 0 || b[0] != 0x90:
		return ""
	case bytes.HasPrefix(b[1:], nop5):
		return "nop+nop5"
	case bytes.HasPrefix(b[1:], nop10):
		return "nop+nop10"
	}
	return "nop"
}

// plainNop reports whether an instruction is the nop of the architecture's manual.
func plainNop(m elf.Machine, insn uint32, size int) bool {
	switch m {
	case elf.EM_AARCH64:
		return insn == 0xd503201f
	case elf.EM_ARM:
		// Thumb nop, mov r8,r8; ARM mov r0,r0, nop.
		return size == 2 && (insn == 0xbf00 || insn == 0x46c0) ||
			size == 4 && (insn == 0xe1a00000 || insn == 0xe320f000)
	case elf.EM_RISCV:
		return size == 2 && insn == 0x0001 || size == 4 && insn == 0x00000013
	case elf.EM_PPC64:
		return insn == 0x60000000
	case elf.EM_S390:
		return insn>>16 == 0x4700 // bc 0,…
	case elf.EM_LOONGARCH:
		return insn == 0x03400000
	}
	return false
}
