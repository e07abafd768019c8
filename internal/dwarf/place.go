package dwarf

import (
	"debug/elf"
	"fmt"
	"math/bits"
)

// PlaceKind is a kind of place.
type PlaceKind uint8

// These are the kinds of places.
const (
	PlaceNone     PlaceKind = iota // the entry does not say
	PlaceGone                      // optimized out: the variable has no value
	PlaceElsewhere                 // it has a value at other addresses only
	PlaceRegister                  // the register Reg
	PlaceSum                       // the value is that of the register Reg plus Offset
	PlaceConst                     // the value is Offset
	PlaceCFA                       // memory at the call frame's address (6.4) plus Offset
	PlaceMemory                    // memory at the register Reg plus Offset
	PlaceFrame                     // a slot in the frame: it exists after the prologue
	PlaceOther                     // an expression that PlaceAt does not evaluate
)

// Place tells where the value of a variable is, by the registers at an address of its
// function.
type Place struct {
	Kind PlaceKind
	// Deref is set if the place, a slot in the frame, holds the value's address.
	Deref bool
	// Whole is set if the place is the same in the whole scope. Compilers that do not optimize
	// describe all variables in that way, as they are after the prologue.
	Whole bool
	// Op is the operation of a PlaceOther that is not known.
	Op byte
	// Bits is the number of low bits of the register that count, 0 if all do.
	Bits   uint8
	Reg    int32
	Offset int64
	// Pieces are the parts of a value that is in several places, in order; the other fields
	// are not set then.
	Pieces []Piece
}

// Piece is a part of a value.
type Piece struct {
	Size  int64 // in bytes
	Place Place
}

// maxPieces bounds the pieces of a value. maxOps bounds the operations of an expression.
const (
	maxPieces = 16
	maxOps    = 256
)

// PlaceAt returns where the value of a variable is at an address of the function fn, whose
// entry that is. Only one location of a list counts: the one that begins at the address, even
// if it ends there, because the variable is assigned there without any instruction
// (DW_AT_GNU_locviews); else the one that contains the address.
func (e *Entry) PlaceAt(pc uint64, fn *Entry) Place {
	if n, ok := e.Int(ConstValue); ok {
		return Place{Kind: PlaceConst, Offset: n, Whole: true}
	}
	if b, ok := e.block(ConstValue); ok {
		if n, ok := e.u.number(b); ok {
			return Place{Kind: PlaceConst, Offset: n, Whole: true}
		}
		return Place{Kind: PlaceOther}
	}
	if e.Has(ConstValue) {
		return Place{Kind: PlaceOther} // a string
	}
	if b, ok := e.block(Value); ok {
		p := e.u.evaluate(b, fn)
		p.Whole = true
		return p
	}
	switch v := e.values[Value]; v.form {
	case 0:
		return Place{}
	case formSecOffset, formLoclistx, formData4, formData8:
		b, ok := e.u.location(v, pc)
		if !ok {
			return Place{Kind: PlaceElsewhere}
		}
		return e.u.evaluate(b, fn)
	}
	return Place{Kind: PlaceOther}
}

// block returns the bytes of an attribute that is a block or an expression.
func (e *Entry) block(a Attr) ([]byte, bool) {
	b := e.u.d.info[:e.u.end]
	v := e.values[a]
	c := cursor{b: b, off: int(v.n), be: e.u.d.be}
	switch v.form {
	case formExprloc, formBlock, formBlock1, formBlock2, formBlock4:
		return c.take(int(v.size)), !c.bad
	}
	return nil, false
}

// number returns the number that a block of up to eight bytes contains.
func (u *unit) number(b []byte) (int64, bool) {
	switch len(b) {
	case 1, 2, 4, 8:
		c := cursor{b: b, be: u.d.be}
		return int64(c.uint(len(b))), true
	}
	return 0, false
}

// looked counts bytes of location lists. It returns false if they are too many: in a malformed
// file, many entries may refer to one long list.
func (d *Data) looked(n int) bool {
	d = d.outer()
	d.locsRead += n
	return d.locsRead <= 4*(len(d.loc)+len(d.loclists))
}

// location returns the expression of a location list that counts at an address.
func (u *unit) location(v value, pc uint64) (expr []byte, ok bool) {
	found := func(lo, hi uint64, b []byte) bool {
		ok = lo == pc || lo < pc && pc < hi
		if expr = b; !ok {
			expr = nil
		}
		return ok
	}
	if u.version < 5 {
		u.oldLocations(v.n, found)
		return expr, ok
	}
	off := v.n
	if v.form == formLoclistx {
		at := u.loclists + v.n*uint64(u.offSize)
		if v.n > uint64(len(u.d.loclists)) || at > uint64(len(u.d.loclists)) {
			return nil, false
		}
		c := cursor{b: u.d.loclists, off: int(at), be: u.d.be}
		if off = u.loclists + c.uint(u.offSize); c.bad {
			return nil, false
		}
	}
	byDefault, any := u.locations(off, found)
	if !ok && any {
		return byDefault, true
	}
	return expr, ok
}

// oldLocations calls f for the entries of a list of .debug_loc (2.6.2 of DWARF 4) until it
// returns true.
func (u *unit) oldLocations(off uint64, f func(lo, hi uint64, b []byte) bool) {
	if off >= uint64(len(u.d.loc)) {
		return
	}
	c := cursor{b: u.d.loc, off: int(off), be: u.d.be}
	base, top := u.low, uint64(1)<<(8*uint(u.addrSize)-1)<<1-1
	for at := c.off; ; at = c.off {
		lo, hi := c.uint(u.addrSize), c.uint(u.addrSize)
		switch {
		case c.bad || lo == 0 && hi == 0:
			return
		case lo == top:
			base = hi
			if !u.d.looked(c.off - at) {
				return
			}
			continue
		}
		b := c.take(int(c.u16()))
		if c.bad || !u.d.looked(c.off-at) || f(base+lo, base+hi, b) {
			return
		}
	}
}

// locations calls f for the entries of a list of .debug_loclists (7.29) until it returns true.
// byDefault is the expression for all addresses that no entry has, if any is set.
func (u *unit) locations(off uint64, f func(lo, hi uint64, b []byte) bool) (byDefault []byte,
	any bool,
) {
	if off >= uint64(len(u.d.loclists)) {
		return nil, false
	}
	c := cursor{b: u.d.loclists, off: int(off), be: u.d.be}
	base := u.low
	for at := c.off; ; at = c.off {
		var lo, hi uint64
		kind := c.u8()
		switch kind {
		case 1: // base_addressx
			base, _ = u.addrx(c.uleb())
		case 2: // startx_endx
			lo, _ = u.addrx(c.uleb())
			hi, _ = u.addrx(c.uleb())
		case 3: // startx_length
			lo, _ = u.addrx(c.uleb())
			hi = lo + c.uleb()
		case 4: // offset_pair
			lo = base + c.uleb()
			hi = base + c.uleb()
		case 5: // default_location
		case 6: // base_address
			base = c.uint(u.addrSize)
		case 7: // start_end
			lo = c.uint(u.addrSize)
			hi = c.uint(u.addrSize)
		case 8: // start_length
			lo = c.uint(u.addrSize)
			hi = lo + c.uleb()
		case 9: // GNU_view_pair
			c.uleb()
			c.uleb()
		default: // the end of the list, or an unknown entry
			return byDefault, any
		}
		var b []byte
		described := kind != 1 && kind != 6 && kind != 9
		if described {
			b = c.take(int(min(c.uleb(), uint64(len(c.b)))))
		}
		if c.bad || !u.d.looked(c.off-at) {
			return nil, false
		}
		if kind == 5 {
			byDefault, any = b, true
		} else if described && f(lo, hi, b) {
			return byDefault, any
		}
	}
}

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

// Known reports whether the entry says anything about the place.
func (p Place) Known() bool { return p.Kind != PlaceNone || p.Pieces != nil }

// String describes a place for messages about why it cannot be read.
func (p Place) String() string {
	switch {
	case p.Pieces != nil:
		return "in several places"
	case p.Kind == PlaceGone || p.Kind == PlaceNone || p.Kind == PlaceElsewhere:
		return "optimized out"
	case p.Kind == PlaceOther && p.Op == opAddr:
		return "an address in the file, which can be loaded anywhere"
	case p.Kind == PlaceOther && p.Op != 0:
		return fmt.Sprintf("computed by the DWARF operation %#x", p.Op)
	case p.Kind == PlaceOther:
		return "computed"
	case p.Kind == PlaceFrame:
		return "in the frame"
	case p.Kind == PlaceMemory:
		return fmt.Sprintf("in memory at register %d%+d", p.Reg, p.Offset)
	}
	return "elsewhere"
}
