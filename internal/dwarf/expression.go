package dwarf

import (
	"debug/elf"
	"math/bits"
)

// maxPieces bounds the pieces of a value. maxOps bounds the operations of an expression.
const (
	maxPieces = 16
	maxOps    = 256
)

// These are operations of expressions (7.7.1).
const (
	opAddr        = 0x03
	opDeref       = 0x06
	opConst1u     = 0x08
	opConsts      = 0x11
	opAnd         = 0x1a
	opPlus        = 0x22
	opPlusUconst  = 0x23
	opLit0        = 0x30
	opReg0        = 0x50
	opBreg0       = 0x70
	opRegx        = 0x90
	opFbreg       = 0x91
	opBregx       = 0x92
	opPiece       = 0x93
	opNop         = 0x96
	opCFA         = 0x9c
	opImplicit    = 0x9e
	opStackValue  = 0x9f
	opImplicitPtr = 0xa0
	opEntryValue  = 0xa3
	opConvert     = 0xa8
	opGNUPointer  = 0xf2
	opGNUEntry    = 0xf3
	opGNUConvert  = 0xf7
	opGNUParamRef = 0xfa
)

// operand is a value on the stack of an expression: a number, or a base plus a number.
type operand struct {
	base  operandBase
	reg   int32
	n     int64
	deref bool  // what is in memory there
	bits  uint8 // the low bits that count, 0 if all do
}

// cut leaves the low bits of an operand, as a conversion to a smaller integer does.
func (o *operand) cut(n uint64) {
	if n < 64 && (o.bits == 0 || n < uint64(o.bits)) {
		o.bits = uint8(n)
	}
}

type operandBase uint8

const (
	noBase operandBase = iota
	regBase
	cfaBase
	frameBase // an unknown distance from the CFA: after the prologue
)

// evaluate returns the place that an expression describes at the function's first instruction.
func (u *unit) evaluate(b []byte, fn *Entry) Place {
	c := cursor{b: b, be: u.d.be}
	x := expression{u: u, c: &c, fn: fn}
	for n := 0; c.off < len(b) && n < maxOps; n++ {
		op := c.u8()
		if !x.step(op) || c.bad {
			return Place{Kind: PlaceOther, Op: op}
		}
		if x.gone {
			return Place{Kind: PlaceGone}
		}
	}
	if c.off < len(b) {
		return Place{Kind: PlaceOther}
	}
	if x.pieces != nil {
		if x.some { // the last operations are not followed by a piece
			return Place{Kind: PlaceOther, Op: opPiece}
		}
		return Place{Pieces: x.pieces}
	}
	return x.place()
}

// expression is the state of a location expression.
type expression struct {
	u      *unit
	c      *cursor
	fn     *Entry
	stack  [4]operand
	depth  int
	reg    int32 // the location is this register, if isReg is set
	isReg  bool
	value  bool // the top of the stack is the value itself
	some   bool // there were operations since the last piece
	gone   bool // the value does not exist in the program
	pieces []Piece
}

// place returns the place that the operations since the last piece describe.
func (x *expression) place() Place {
	switch {
	case !x.some:
		return Place{Kind: PlaceGone}
	case x.isReg:
		return Place{Kind: PlaceRegister, Reg: x.reg}
	case x.depth != 1:
		return Place{Kind: PlaceOther}
	}
	o := x.stack[0]
	if o.bits != 0 && (!x.value || o.base != regBase || o.deref) {
		return Place{Kind: PlaceOther, Op: opAnd}
	}
	switch {
	case o.deref && o.base == frameBase && !x.value:
		return Place{Kind: PlaceFrame, Deref: true}
	case o.deref:
		return Place{Kind: PlaceOther, Op: opDeref}
	case x.value && o.base == noBase:
		return Place{Kind: PlaceConst, Offset: o.n}
	case x.value && o.base == regBase && o.n == 0:
		return Place{Kind: PlaceRegister, Reg: o.reg, Bits: o.bits}
	case x.value && o.base == regBase:
		return Place{Kind: PlaceSum, Reg: o.reg, Offset: o.n, Bits: o.bits}
	case x.value || o.base == noBase: // an address in the frame, or a global variable
		return Place{Kind: PlaceOther}
	case o.base == regBase:
		return Place{Kind: PlaceMemory, Reg: o.reg, Offset: o.n}
	case o.base == cfaBase && o.n >= 0:
		return Place{Kind: PlaceCFA, Offset: o.n}
	}
	return Place{Kind: PlaceFrame}
}

func (x *expression) push(o operand) bool {
	if x.depth == len(x.stack) {
		return false
	}
	x.stack[x.depth] = o
	x.depth++
	return true
}

// step executes an operation; it returns false for one that is not known.
func (x *expression) step(op byte) bool {
	c := x.c
	if op != opPiece {
		x.some = true
	}
	switch {
	case op >= opLit0 && op < opLit0+32:
		return x.push(operand{n: int64(op - opLit0)})
	case op >= opConst1u && op <= opConsts:
		return x.push(operand{n: x.constant(op)})
	case op >= opReg0 && op < opReg0+32:
		x.reg, x.isReg = int32(op-opReg0), true
		return x.depth == 0
	case op >= opBreg0 && op < opBreg0+32:
		return x.push(operand{base: regBase, reg: int32(op - opBreg0), n: c.sleb()})
	}
	switch op {
	case opNop:
	case opAddr:
		// Where a file that can be loaded anywhere is loaded is known at run time only.
		f := x.u.d.outer().file
		n := c.uint(x.u.addrSize)
		return f != nil && f.Type == elf.ET_EXEC && x.push(operand{n: int64(n)})
	case opRegx:
		x.reg, x.isReg = int32(min(c.uleb(), 1<<16)), true
		return x.depth == 0
	case opBregx:
		reg := int32(min(c.uleb(), 1<<16))
		return x.push(operand{base: regBase, reg: reg, n: c.sleb()})
	case opFbreg:
		return x.push(operand{base: x.u.frameBase(x.fn), n: c.sleb()})
	case opCFA:
		return x.push(operand{base: cfaBase})
	case opPlusUconst:
		return x.add(int64(c.uleb()))
	case opPlus:
		if x.depth < 2 || x.stack[x.depth-1].base != noBase || x.stack[x.depth-1].deref {
			return false
		}
		x.depth--
		return x.add(x.stack[x.depth].n)
	case opAnd:
		if x.depth < 2 || x.stack[x.depth-1] != (operand{n: x.stack[x.depth-1].n}) {
			return false
		}
		x.depth--
		mask := uint64(x.stack[x.depth].n)
		x.stack[x.depth-1].cut(uint64(bits.Len64(mask)))
		return mask&(mask+1) == 0
	case opConvert, opGNUConvert:
		return x.convert(c.uleb())
	case opDeref:
		if x.depth == 0 || x.stack[x.depth-1].deref {
			return false
		}
		x.stack[x.depth-1].deref = true
	case opStackValue:
		x.value = true
		return x.depth > 0
	case opImplicit:
		n, ok := x.u.number(c.take(int(min(c.uleb(), 1<<16))))
		x.value = true
		return ok && x.push(operand{n: n})
	case opEntryValue, opGNUEntry:
		return x.entryValue(c.take(int(min(c.uleb(), 1<<16))))
	case opImplicitPtr, opGNUPointer, opGNUParamRef:
		// What a pointer points to is known, or the argument at a call of this function, and
		// the value itself exists nowhere.
		x.gone = true
	case opPiece:
		return x.piece(int64(min(c.uleb(), 1<<16)))
	default:
		return false
	}
	return true
}

// add adds to the number on top of the stack.
func (x *expression) add(n int64) bool {
	if x.depth == 0 || x.stack[x.depth-1].deref {
		return false
	}
	x.stack[x.depth-1].n += n
	return true
}

// convert converts the top of the stack to the base type at an offset in the unit; 0 is an
// integer of the size of an address.
func (x *expression) convert(off uint64) bool {
	if x.depth == 0 {
		return false
	}
	size := uint64(x.u.addrSize)
	if off != 0 {
		var e Entry
		if off > x.u.end || e.Read(Ref{x.u, x.u.off + off}) != nil || e.Tag != TagBaseType {
			return false
		}
		if enc, _ := e.Int(Encoding); enc == EncodingFloat || enc == EncodingComplexFloat {
			return false
		}
		size = uint64(e.Size())
	}
	x.stack[x.depth-1].cut(8 * size)
	return size > 0
}

// constant reads the operand of opConst1u to opConsts.
func (x *expression) constant(op byte) int64 {
	c := x.c
	switch op - opConst1u {
	case 0:
		return int64(c.u8())
	case 1:
		return int64(int8(c.u8()))
	case 2:
		return int64(c.u16())
	case 3:
		return int64(int16(c.u16()))
	case 4:
		return int64(c.u32())
	case 5:
		return int64(int32(c.u32()))
	case 6, 7:
		return int64(c.u64())
	case 8:
		return int64(c.uleb())
	}
	return c.sleb()
}

// entryValue pushes the value that an expression, which names a register, had when the function
// was entered: that is now.
func (x *expression) entryValue(b []byte) bool {
	return len(b) == 1 && b[0] >= opReg0 && b[0] < opReg0+32 &&
		x.push(operand{base: regBase, reg: int32(b[0] - opReg0)})
}

// piece ends a piece.
func (x *expression) piece(size int64) bool {
	if len(x.pieces) == maxPieces {
		return false
	}
	x.pieces = append(x.pieces, Piece{size, x.place()})
	x.depth, x.isReg, x.value, x.some = 0, false, false, false
	return true
}

// frameBase returns what DW_OP_fbreg refers to. A register as the base of the frame has its
// value after the prologue only.
func (u *unit) frameBase(fn *Entry) operandBase {
	if fn != nil {
		if b, ok := fn.block(FrameBase); ok && len(b) == 1 && b[0] == opCFA {
			return cfaBase
		}
	}
	return frameBase
}
