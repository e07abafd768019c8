package stack

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/borescope/borescope/stack/internal/rules"
)

// cfiState is the row that call frame instructions work on.
type cfiState struct {
	how FrameSource
	cfa rules.CFA
	// base is the last rule of the form reg + off: an instruction that changes
	// one part of it after an expression means this one (libgcrypt does that).
	base rules.CFA
	set  uint64 // bit n: regs[n] is not RegSame
	regs [numRegs]rules.RegRule
}

func (s *cfiState) setReg(n uint64, r rules.RegRule) {
	if n >= numRegs { // vector registers and the like
		return
	}
	s.regs[n] = r
	if r.Kind == rules.RegSame {
		s.set &^= 1 << n
	} else {
		s.set |= 1 << n
	}
}

// key appends a form of the state that is equal for equal rules.
func (s *cfiState) key(b []byte) []byte {
	b = append(b, byte(s.how), byte(s.cfa.Kind), s.cfa.Reg)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.cfa.Off))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.cfa.Off2))
	for set := s.set; set != 0; set &= set - 1 {
		n := bits.TrailingZeros64(set)
		r := &s.regs[n]
		b = append(b, byte(n), byte(r.Kind), r.Reg)
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Off))
	}
	return b
}

// rule returns the rule of a machine whose addresses have word bytes.
func (s *cfiState) rule(word int32) rules.Rule {
	r := rules.Rule{How: uint8(s.how), CFA: s.cfa}
	for set := s.set; set != 0; set &= set - 1 {
		n := bits.TrailingZeros64(set)
		r.Saved = append(r.Saved, rules.SavedReg{Num: uint8(n), RegRule: s.regs[n]})
		if off := s.regs[n].Off; s.regs[n].Kind == rules.RegAtCFA {
			if r.Lo == r.Hi {
				r.Lo, r.Hi = off, off+word
			}
			r.Lo, r.Hi = min(r.Lo, off), max(r.Hi, off+word)
		}
	}
	return r
}

// fitsInt32 reports whether an offset can be kept in a rule.
func fitsInt32(v int64) bool { return v >= math.MinInt32 && v <= math.MaxInt32-8 }
