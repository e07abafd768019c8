package probe

import (
	"debug/elf"
	"errors"
	"fmt"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"
)

// insnLen decodes the instruction that the code begins with and tells whether
// it returns from the function.
func insnLen(m elf.Machine, code []byte) (n int, ret bool, err error) {
	switch m {
	case elf.EM_X86_64:
		n, ret, err = x86Insn(code)
		return n, ret, err
	case elf.EM_AARCH64:
		if len(code) < 4 {
			return 0, false, errors.New("truncated instruction")
		}
		// Unknown to the decoder or not, an instruction has 4 bytes.
		inst, err := arm64asm.Decode(code)
		return 4, err == nil && inst.Op == arm64asm.RET, nil
	}
	return 0, false, fmt.Errorf("no decoder for %s", m)
}

// x86Insn decodes one instruction; newer ones that x86asm doesn't know
// (VEX and EVEX encodings, endbr64) are measured here.
func x86Insn(code []byte) (int, bool, error) {
	if len(code) >= 4 && code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa {
		return 4, false, nil // endbr64
	}
	if n := vexLen(code); n > 0 {
		return n, false, nil
	}
	inst, err := x86asm.Decode(code, 64)
	if err != nil {
		return 0, false, err
	}
	return inst.Len, inst.Op == x86asm.RET, nil
}

// vexLen is the length of a VEX- or EVEX-encoded instruction, 0 if the code
// begins with none or is too short. Intel SDM volume 2, 2.3 and 2.7.
func vexLen(c []byte) int {
	var m byte // opcode map
	var i int
	switch {
	case len(c) >= 4 && c[0] == 0xc5:
		m, i = 1, 2
	case len(c) >= 5 && c[0] == 0xc4:
		m, i = c[1]&0x1f, 3
	case len(c) >= 6 && c[0] == 0x62:
		m, i = c[1]&7, 4
	default:
		return 0
	}
	op := c[i]
	i++
	if m == 1 && op == 0x77 { // vzeroupper, vzeroall: no ModRM
		return i
	}
	i = modrmLen(c, i)
	if i == 0 {
		return 0
	}
	if hasImm8(m, op) {
		i++
	}
	if i > len(c) {
		return 0
	}
	return i
}

// modrmLen returns the offset after ModRM, SIB and displacement; EVEX's
// compressed displacement has one byte too.
func modrmLen(c []byte, i int) int {
	if i >= len(c) {
		return 0
	}
	mod, rm := c[i]>>6, c[i]&7
	i++
	if mod == 3 {
		return i
	}
	base := byte(0xff)
	if rm == 4 {
		if i >= len(c) {
			return 0
		}
		base = c[i] & 7
		i++
	}
	switch {
	case mod == 1:
		i++
	case mod == 2, mod == 0 && (rm == 5 || base == 5):
		i += 4
	}
	return i
}

// hasImm8 tells which VEX opcodes carry an immediate byte: all of map 3, and
// the shuffles, shifts, compares and inserts of map 1.
func hasImm8(m, op byte) bool {
	if m == 3 {
		return true
	}
	return m == 1 && (op >= 0x70 && op <= 0x73 || op == 0xc2 || op >= 0xc4 && op <= 0xc6)
}

// returns finds the offsets of the return instructions of a function, decoding
// it from its start. An instruction that can't be decoded is an error: a probe
// put into the middle of one would corrupt the program.
func returns(m elf.Machine, code []byte) ([]uint64, error) {
	var out []uint64
	for off := 0; off < len(code); {
		n, ret, err := insnLen(m, code[off:])
		if err != nil || n == 0 {
			return nil, fmt.Errorf("instruction at +%d (% x): %w", off, code[off:min(off+8, len(code))], err)
		}
		if ret {
			out = append(out, uint64(off))
		}
		off += n
	}
	return out, nil
}

// checkBoundary says whether an instruction begins at the offset, and names
// the ones around it if not.
func checkBoundary(m elf.Machine, code []byte, offset uint64) error {
	if offset >= uint64(len(code)) {
		return fmt.Errorf("offset %d lies beyond the function's %d bytes", offset, len(code))
	}
	before := 0
	for off := 0; off < len(code); {
		if uint64(off) == offset {
			return nil
		}
		if uint64(off) > offset {
			return fmt.Errorf("offset %d lies within an instruction; those around it begin at +%d and +%d", offset, before, off)
		}
		n, _, err := insnLen(m, code[off:])
		if err != nil || n == 0 {
			return nil // beyond what can be told; the kernel checks too
		}
		before = off
		off += n
	}
	return fmt.Errorf("offset %d lies within the last instruction, which begins at +%d", offset, before)
}
