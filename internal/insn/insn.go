// Package insn measures machine instructions: how long each is, and whether it
// returns from the function. That is all that is needed to find where instructions
// begin, and it is told for every instruction of the architecture, also those
// newer than any table of mnemonics, because the length hangs on little: prefixes,
// opcode map, ModRM and the immediate.
package insn

import (
	"debug/elf"
	"errors"
	"fmt"
)

// Inst is what is known of an instruction.
type Inst struct {
	// Len is the length in bytes: 1 to 15 on amd64, 4 on arm64.
	Len int
	// Ret is set where it returns to the caller.
	Ret bool
}

// The ways in which code is no instruction.
var (
	// ErrShort says that the code ends within the instruction.
	ErrShort = errors.New("the code ends within the instruction")
	// ErrUnknown says that these bytes are no instruction, or one whose length
	// differs from processor to processor.
	ErrUnknown = errors.New("no known instruction")
)

// Decode measures the instruction that the code begins with. It looks at no byte
// behind it. Errors are ErrShort, ErrUnknown, or say that the machine has no
// decoder: there are EM_X86_64 and EM_AARCH64.
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

// isRetARM64 knows ret, retaa and retab, and the forms of those that name what
// the return address is signed with (Arm ARM C6.2, FEAT_PAuth_LR).
func isRetARM64(w uint32) bool {
	switch {
	case w&0xfffffc1f == 0xd65f0000: // ret xN
		return true
	case w&0xfffffbe0 == 0xd65f0be0: // retaa, retab; retaasppcr, retabsppcr
		return true
	}
	return w&0xff80001f == 0x5500001f // retaasppc, retabsppc
}

// Walk calls yield with the offset of every instruction of the code, which begins
// with one, in order, until it returns false. An instruction that cannot be told is
// an *Error.
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

// Error says where code could not be followed.
type Error struct {
	Offset int
	Code   []byte
	Err    error
}

// Error reads "instruction at +12 (0f 04 c3): no known instruction".
func (e *Error) Error() string {
	return fmt.Sprintf("instruction at +%d (% x): %v", e.Offset, e.Code, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
