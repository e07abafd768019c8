package stack

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// cfaKind says how a rule computes the canonical frame address: the stack
// pointer in the caller, before it called.
type cfaKind uint8

const (
	cfaNone   cfaKind = iota // no rule: the address is covered by no FDE
	cfaReg                   // reg + off
	cfaDeref                 // *(reg + off) + off2
	cfaPLT                   // reg + off, and 8 more if pc&15 >= off2
	cfaExpr                  // expression number off
	cfaSignal                // the frame that the kernel pushed for a signal handler
	cfaSwitch                // reg + off, on another stack
	cfaGrow                  // as Go's descriptor of the goroutine says: see goGrow
	cfaIndex                 // *(reg + off + 8 * AMD64R9) + off2
)

// cfaRule is how a frame's CFA is found.
type cfaRule struct {
	kind cfaKind
	reg  uint8
	off  int32
	off2 int32
}

// regKind says how a rule restores a register of the caller.
type regKind uint8

const (
	regSame    regKind = iota // it still holds the caller's value
	regUndef                  // the value is lost; of the return address: the outermost frame
	regAtCFA                  // saved at CFA + off
	regCFA                    // the value is CFA + off
	regReg                    // in register reg
	regAtReg                  // saved at reg + off
	regAtExpr                 // saved at the address that expression number off computes
	regValExpr                // the value that expression number off computes
)

// regRule is how a register is restored.
type regRule struct {
	kind regKind
	reg  uint8
	off  int32
}

// savedReg is a regRule and the register it is for.
type savedReg struct {
	num uint8
	regRule
}

// cfiRule is one distinct way to unwind. Tables hold each once.
type cfiRule struct {
	how   How // what frames found by it say; HowUnknown: what the table's do
	cfa   cfaRule
	saved []savedReg // by number; registers that are not here keep their value
	// lo and hi bound the slots that are counted from the CFA.
	lo, hi int32
}

// cfiState is the row that call frame instructions work on.
type cfiState struct {
	how How
	cfa cfaRule
	// base is the last rule of the form reg + off: an instruction that changes
	// one part of it after an expression means this one (libgcrypt does that).
	base cfaRule
	set  uint64 // bit n: regs[n] is not regSame
	regs [numRegs]regRule
}

func (s *cfiState) setReg(n uint64, r regRule) {
	if n >= numRegs { // vector registers and the like
		return
	}
	s.regs[n] = r
	if r.kind == regSame {
		s.set &^= 1 << n
	} else {
		s.set |= 1 << n
	}
}

// key appends a form of the state that is equal for equal rules.
func (s *cfiState) key(b []byte) []byte {
	b = append(b, byte(s.how), byte(s.cfa.kind), s.cfa.reg)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.cfa.off))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.cfa.off2))
	for set := s.set; set != 0; set &= set - 1 {
		n := bits.TrailingZeros64(set)
		r := &s.regs[n]
		b = append(b, byte(n), byte(r.kind), r.reg)
		b = binary.LittleEndian.AppendUint32(b, uint32(r.off))
	}
	return b
}

func (s *cfiState) rule() cfiRule {
	r := cfiRule{how: s.how, cfa: s.cfa}
	for set := s.set; set != 0; set &= set - 1 {
		n := bits.TrailingZeros64(set)
		r.saved = append(r.saved, savedReg{uint8(n), s.regs[n]})
		if off := s.regs[n].off; s.regs[n].kind == regAtCFA {
			if r.lo == r.hi {
				r.lo, r.hi = off, off+8
			}
			r.lo, r.hi = min(r.lo, off), max(r.hi, off+8)
		}
	}
	return r
}

// fitsInt32 reports whether an offset can be kept in a rule.
func fitsInt32(v int64) bool { return v >= math.MinInt32 && v <= math.MaxInt32-8 }

// String is the CFA as readelf prints it: "rsp+8", "exp".
func (c cfaRule) text(reg func(uint8) string) string {
	switch c.kind {
	case cfaReg:
		return fmt.Sprintf("%s%+d", reg(c.reg), c.off)
	case cfaNone:
		return "-"
	}
	return "exp"
}

// text is the rule as readelf prints it: "c-16", "u", "s", "exp".
func (r regRule) text(reg func(uint8) string) string {
	switch r.kind {
	case regUndef:
		return "u"
	case regAtCFA:
		return fmt.Sprintf("c%+d", r.off)
	case regCFA:
		return fmt.Sprintf("v%+d", r.off)
	case regReg:
		return reg(r.reg)
	case regAtReg, regAtExpr:
		return "exp"
	case regValExpr:
		return "vexp"
	}
	return "s"
}
