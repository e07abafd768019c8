// Package insn determines the length of machine instructions, and whether they return from the
// function. That is enough to find where instructions begin. It works for every instruction of
// the architecture, including those newer than any table of mnemonics, because the length
// depends on only a few things: prefixes, opcode map, ModRM and the immediate.
package insn

import (
	"debug/elf"
	"errors"
	"fmt"
)

// Inst describes an instruction.
type Inst struct {
	// Len is the length in bytes: 1 to 15 on amd64, 4 on arm64.
	Len int
	// Ret is set if it returns to the caller.
	Ret bool
}

// These are the errors for code that is no instruction.
var (
	// ErrShort is the error for code that ends within the instruction.
	ErrShort = errors.New("the code ends within the instruction")
	// ErrUnknown is the error for bytes that are no instruction, or an instruction with a
	// length that depends on the processor.
	ErrUnknown = errors.New("unknown instruction")
)

// Decode decodes the instruction at the start of the code. It reads no byte behind it. The
// error is ErrShort or ErrUnknown, or another one for machines other than EM_X86_64 and
// EM_AARCH64.
func Decode(m elf.Machine, code []byte) (Inst, error) {
	switch m {
	case elf.EM_X86_64:
		return decodeAMD64(code)
	case elf.EM_AARCH64:
		if len(code) < 4 {
			return Inst{}, ErrShort
		}
		w := uint32(code[0]) | uint32(code[1])<<8 | uint32(code[2])<<16 | uint32(code[3])<<24
		return Inst{4, isRetARM64(w)}, nil
	}
	return Inst{}, fmt.Errorf("no decoder for %s", m)
}

// isRetARM64 reports whether w is ret, retaa or retab, or one of their forms with an operand
// for authenticating the return address (Arm ARM C6.2, FEAT_PAuth_LR).
func isRetARM64(w uint32) bool {
	switch {
	case w&0xfffffc1f == 0xd65f0000: // ret xN
		return true
	case w&0xfffffbe0 == 0xd65f0be0: // retaa, retab; retaasppcr, retabsppcr
		return true
	}
	return w&0xff80001f == 0x5500001f // retaasppc, retabsppc
}

// Walk calls yield for every instruction of the code, with its offset, in order, until it
// returns false. The code must begin with an instruction. If an instruction cannot be decoded,
// Walk returns an *Error.
func Walk(m elf.Machine, code []byte, yield func(off int, in Inst) bool) error {
	for off := 0; off < len(code); {
		in, err := Decode(m, code[off:])
		if err != nil {
			return &Error{off, code[off:min(off+8, len(code))], err}
		}
		if !yield(off, in) {
			return nil
		}
		off += in.Len
	}
	return nil
}

// Error is the error for code that could not be decoded, with its offset, the bytes there and
// the cause.
type Error struct {
	Offset int
	Code   []byte
	Err    error
}

// Error returns "instruction at +12 (0f 04 c3): unknown instruction".
func (e *Error) Error() string {
	return fmt.Sprintf("instruction at +%d (% x): %v", e.Offset, e.Code, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
