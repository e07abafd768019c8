package bpfwalk

import (
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/borescope/borescope/stack"
)

// TestDecodeCompat: the registers of a copy are those of the code that was interrupted: of 64 or of 32 bits.
func TestDecodeCompat(t *testing.T) {
	for name, c := range map[string]struct {
		machine elf.Machine
		words   map[int]uint64 // of struct pt_regs or user_pt_regs
		why     stack.StopReason
		want    stack.Regs
		call    int64
		end     stack.StopReason
	}{
		"i386": {
			elf.EM_X86_64,
			map[int]uint64{16: 0x1010, 17: user32CS, 19: 0xdead_0000_2000, 4: 0x2020, 10: 1, 11: 2, 12: 3, 5: 4, 13: 5, 14: 6, 15: 11},
			stack.StopBadMemory,
			regs32(elf.EM_386, 1, 2, 3, 4, 0x2000, 0x2020, 5, 6, 0x1010), 11, stack.StopNoMapping,
		},
		"arm": {
			elf.EM_AARCH64,
			map[int]uint64{0: 1, 7: 11, 13: 0x2000, 14: 0x1020, 32: 0x1010},
			stack.StopCompat,
			regs32(elf.EM_ARM, 1, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0x2000, 0x1020, 0x1010), 11, stack.StopCompat,
		},
	} {
		copier := Copier{Machine: c.machine}
		state := make([]byte, copier.StateSize())
		binary.NativeEndian.PutUint32(state[copyWhy:], uint32(c.why))
		for i, v := range c.words {
			binary.NativeEndian.PutUint64(state[copyRegs+8*i:], v)
		}
		s := copier.Decode(state)
		if s.Regs != c.want || s.Call != c.call {
			t.Errorf("%s: %+v in call %d, want %+v in %d", name, s.Regs, s.Call, c.want, c.call)
		}
		var dst [8]stack.Frame
		if n, end := s.Walk(dst[:], &stack.CFIWalker{}); n != 1 || dst[0].PC != 0x1010 || end != c.end {
			t.Errorf("%s: %d frames, from %#x, end %v", name, n, dst[0].PC, end)
		}
	}
}

func regs32(m elf.Machine, values ...uint64) stack.Regs {
	r := stack.Regs{Machine: m}
	for i, v := range values {
		r.Set(i, v)
	}
	return r
}
