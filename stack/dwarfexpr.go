package stack

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/borescope/borescope/stack/internal/rules"
)

// DWARF expression operations: DWARF 5, 7.7.1.
const (
	opAddr     = 0x03
	opDeref    = 0x06
	opConst1u  = 0x08
	opConst1s  = 0x09
	opConst2u  = 0x0a
	opConst2s  = 0x0b
	opConst4u  = 0x0c
	opConst4s  = 0x0d
	opConst8u  = 0x0e
	opConst8s  = 0x0f
	opConstu   = 0x10
	opConsts   = 0x11
	opDup      = 0x12
	opDrop     = 0x13
	opOver     = 0x14
	opPick     = 0x15
	opSwap     = 0x16
	opRot      = 0x17
	opAbs      = 0x19
	opAnd      = 0x1a
	opDiv      = 0x1b
	opMinus    = 0x1c
	opMod      = 0x1d
	opMul      = 0x1e
	opNeg      = 0x1f
	opNot      = 0x20
	opOr       = 0x21
	opPlus     = 0x22
	opPlusUC   = 0x23
	opShl      = 0x24
	opShr      = 0x25
	opShra     = 0x26
	opXor      = 0x27
	opBra      = 0x28
	opEq       = 0x29
	opGe       = 0x2a
	opGt       = 0x2b
	opLe       = 0x2c
	opLt       = 0x2d
	opNe       = 0x2e
	opSkip     = 0x2f
	opLit0     = 0x30
	opLit31    = 0x4f
	opReg0     = 0x50
	opBreg0    = 0x70
	opBreg31   = 0x8f
	opBregx    = 0x92
	opDerefSz  = 0x94
	opNop      = 0x96
	exprDepth  = 32
	exprBudget = 1000 // operations; expressions of call frames have ten
)

var errBadExpr = errors.New("bad DWARF expression")

// exprMachine evaluates expressions. It is part of a walker, so that nothing is
// allocated on the way.
type exprMachine struct {
	stack [exprDepth]uint64
	n     int
	buf   [8]byte
	rd    dwarfReader
}

func (m *exprMachine) push(v uint64) {
	if m.n == exprDepth {
		m.rd.fail()
		return
	}
	m.stack[m.n] = v
	m.n++
}

func (m *exprMachine) pop() uint64 {
	if m.n == 0 {
		m.rd.fail()
		return 0
	}
	m.n--
	return m.stack[m.n]
}

// eval computes an expression. start is pushed first if withStart (the CFA, for
// register rules).
func (m *exprMachine) eval(expr []byte, r *Regs, mem Memory, start uint64, withStart bool) (uint64,
	error,
) {
	m.rd = dwarfReader{b: expr, narrow: wordSize(r.Machine) == 4}
	m.n = 0
	if withStart {
		m.push(start)
	}
	for budget := exprBudget; m.rd.more(); budget-- {
		if budget == 0 {
			return 0, errBadExpr
		}
		if err := m.op(m.rd.u8(), r, mem); err != nil {
			return 0, err
		}
	}
	v := m.pop()
	switch {
	case m.rd.err != nil:
		return 0, errBadExpr
	case m.rd.narrow:
		return uint64(uint32(v)), nil
	}
	return v, nil
}

func (m *exprMachine) op(op uint8, r *Regs, mem Memory) error {
	rd := &m.rd
	switch {
	case op >= opLit0 && op <= opLit31:
		m.push(uint64(op - opLit0))
		return nil
	case op >= opBreg0 && op <= opBreg31:
		return m.breg(uint64(op-opBreg0), r)
	}
	switch op {
	case opBregx:
		return m.breg(rd.uleb(), r)
	case opDeref:
		return m.deref(uint8(wordSize(r.Machine)), mem)
	case opDerefSz:
		return m.deref(rd.u8(), mem)
	case opConst1u:
		m.push(uint64(rd.u8()))
	case opConst1s:
		m.push(uint64(int64(int8(rd.u8()))))
	case opConst2u:
		m.push(uint64(rd.u16()))
	case opConst2s:
		m.push(uint64(int64(int16(rd.u16()))))
	case opConst4u:
		m.push(uint64(rd.u32()))
	case opConst4s:
		m.push(uint64(int64(int32(rd.u32()))))
	case opConst8u, opConst8s:
		m.push(rd.u64())
	case opAddr:
		m.push(rd.address())
	case opConstu:
		m.push(rd.uleb())
	case opConsts:
		m.push(uint64(rd.sleb()))
	case opPlusUC:
		m.push(m.pop() + rd.uleb())
	case opSkip, opBra:
		m.jump(op)
	case opNop:
	default:
		return m.stackOp(op)
	}
	return nil
}

func (m *exprMachine) breg(n uint64, r *Regs) error {
	off := m.rd.sleb()
	v, ok := r.Reg(int(min(n, numRegs)))
	if !ok {
		return errBadExpr
	}
	m.push(v + uint64(off))
	return nil
}

func (m *exprMachine) deref(size uint8, mem Memory) error {
	if size != 1 && size != 2 && size != 4 && size != 8 {
		return errBadExpr
	}
	m.buf = [8]byte{}
	addr := m.pop()
	if m.rd.err != nil {
		return errBadExpr
	}
	if m.rd.narrow {
		addr = uint64(uint32(addr))
	}
	if err := mem.ReadMemory(m.buf[:size], addr); err != nil {
		return err
	}
	m.push(binary.LittleEndian.Uint64(m.buf[:]))
	return nil
}

func (m *exprMachine) jump(op uint8) {
	to := int(int16(m.rd.u16()))
	if op == opBra && m.pop() == 0 {
		return
	}
	if to += m.rd.pos; to < 0 || to > len(m.rd.b) {
		m.rd.fail()
		return
	}
	m.rd.pos = to
}

// stackOp does what works on the stack alone.
func (m *exprMachine) stackOp(op uint8) error {
	switch op {
	case opDup:
		v := m.pop()
		m.push(v)
		m.push(v)
	case opDrop:
		m.pop()
	case opOver, opPick:
		i := 1
		if op == opPick {
			i = int(m.rd.u8())
		}
		if i >= m.n {
			return errBadExpr
		}
		m.push(m.stack[m.n-1-i])
	case opSwap:
		a, b := m.pop(), m.pop()
		m.push(a)
		m.push(b)
	case opRot:
		a, b, c := m.pop(), m.pop(), m.pop()
		m.push(a)
		m.push(c)
		m.push(b)
	case opAbs:
		v := m.pop()
		if int64(v) < 0 {
			v = -v
		}
		m.push(v)
	case opNeg:
		m.push(-m.pop())
	case opNot:
		m.push(^m.pop())
	default:
		b, a := m.pop(), m.pop()
		v, ok := binaryOp(op, a, b)
		if !ok {
			return errBadExpr
		}
		m.push(v)
	}
	return nil
}

func binaryOp(op uint8, a, b uint64) (uint64, bool) {
	truth := func(t bool) uint64 {
		if t {
			return 1
		}
		return 0
	}
	switch op {
	case opAnd:
		return a & b, true
	case opOr:
		return a | b, true
	case opXor:
		return a ^ b, true
	case opPlus:
		return a + b, true
	case opMinus:
		return a - b, true
	case opMul:
		return a * b, true
	case opDiv:
		if b == 0 {
			return 0, false
		}
		if b == ^uint64(0) { // the smallest number by -1 does not fit
			return -a, true
		}
		return uint64(int64(a) / int64(b)), true
	case opMod:
		if b == 0 {
			return 0, false
		}
		return a % b, true
	case opShl:
		return a << b, true
	case opShr:
		return a >> b, true
	case opShra:
		return uint64(int64(a) >> min(b, 63)), true
	case opEq:
		return truth(a == b), true
	case opNe:
		return truth(a != b), true
	case opGe:
		return truth(int64(a) >= int64(b)), true
	case opGt:
		return truth(int64(a) > int64(b)), true
	case opLe:
		return truth(int64(a) <= int64(b)), true
	case opLt:
		return truth(int64(a) < int64(b)), true
	}
	return 0, false
}

// indexByR9 is "breg9 0; lit8; mul; plus": OpenSSL's bn_mul_mont keeps the stack
// pointer behind as many words as the number in r9 says.
var indexByR9 = []byte{opBreg0 + AMD64R9, 0, opLit0 + 8, opMul, opPlus}

// compactCFA recognises the CFA expressions that compilers and linkers write:
// "breg; deref" with an addition (DRAP), the PLT's, and bn_mul_mont's.
func compactCFA(expr []byte) (rules.CFA, bool) {
	rd := dwarfReader{b: expr}
	reg, off, ok := rd.bregOp()
	if !ok || !fitsInt32(off) {
		return rules.CFA{}, false
	}
	c := rules.CFA{Kind: rules.CFAReg, Reg: reg, Off: int32(off)}
	if !rd.more() {
		return c, true
	}
	if rest := rd.b[rd.pos:]; len(rest) == 9 || len(rest) == 8 {
		// breg16 0; lit15; and; lit10 or lit11; ge; lit3; shl; plus
		if rest[0] == opBreg0+16 && rest[1] == 0 && rest[2] == opLit0+15 && rest[3] == opAnd &&
			rest[4] >= opLit0 && rest[4] < opLit0+16 && rest[5] == opGe && rest[6] == opLit0+3 &&
			rest[7] == opShl &&
			len(rest) == 9 && rest[8] == opPlus {
			c.Kind, c.Off2 = rules.CFAPLT, int32(rest[4]-opLit0)
			return c, true
		}
	}
	c.Kind = rules.CFADeref
	if rest := rd.b[rd.pos:]; bytes.HasPrefix(rest, indexByR9) {
		rd.pos += len(indexByR9)
		c.Kind = rules.CFAIndex
	}
	if rd.u8() != opDeref {
		return rules.CFA{}, false
	}
	if !rd.more() {
		return c, true
	}
	var add int64
	switch op := rd.u8(); {
	case op == opPlusUC:
		add = int64(rd.uleb())
	case op >= opLit0 && op <= opLit31:
		add = int64(op - opLit0)
		if rd.u8() != opPlus {
			return rules.CFA{}, false
		}
	default:
		return rules.CFA{}, false
	}
	c.Off2 = int32(add)
	return c, rd.err == nil && !rd.more() && fitsInt32(add)
}

// compactReg recognises "breg N", as GCC writes for registers saved by a DRAP
// register's frame, in an expression for where a register is saved.
func compactReg(expr []byte) (rules.RegRule, bool) {
	rd := dwarfReader{b: expr}
	reg, off, ok := rd.bregOp()
	return rules.RegRule{Kind: rules.RegAtReg, Reg: reg, Off: int32(off)},
		ok && fitsInt32(off) && !rd.more()
}

// bregOp reads a breg or bregx operation.
func (r *dwarfReader) bregOp() (reg uint8, off int64, ok bool) {
	var n uint64
	switch op := r.u8(); {
	case op >= opBreg0 && op <= opBreg31:
		n = uint64(op - opBreg0)
	case op == opBregx:
		n = r.uleb()
	default:
		return 0, 0, false
	}
	off = r.sleb()
	return uint8(n), off, n < numRegs && r.err == nil
}
