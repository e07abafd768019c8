package dwarf

import (
	"errors"
	"fmt"

	"github.com/borescope/borescope/internal/elffile"
)

// This file interprets the attributes of types.

// Size returns the size of a type in bytes, 0 if the entry has none.
func (e *Entry) Size() uint32 {
	n, _ := e.Int(ByteSize)
	return uint32(max(n, 0))
}

// IsStructure reports whether an entry is a type that has members.
func (e *Entry) IsStructure() bool {
	return isClass(e.Tag)
}

// offset returns the offset of a member in its structure: 0 if the entry has none, an error if
// it must be computed at run time.
func (e *Entry) offset() (int64, error) {
	const plusUconst = 0x23 // DW_OP_plus_uconst, the only operation in DWARF 2 and 3 for this
	if n, ok := e.Int(Location); ok {
		return n, nil
	}
	c := cursor{b: e.u.d.info[:e.u.end], be: e.u.d.be}
	switch v := e.values[Location]; v.form {
	case formBlock, formBlock1, formBlock2, formBlock4, formExprloc:
		c.off = int(v.n)
	default:
		return 0, nil
	}
	if op, n := c.u8(), c.uleb(); op == plusUconst && !c.bad {
		return int64(n), nil
	}
	return 0, errors.New("where a member is depends on the object")
}

// Member is the position of a member in a structure: Offset in bytes and, if Bits is not 0,
// BitOffset and Bits in bits.
type Member struct{ Offset, BitOffset, Bits int64 }

// Member reads the position of a member.
func (e *Entry) Member() (m Member, err error) {
	if m.Offset, err = e.offset(); err != nil {
		return m, err
	}
	fromHigh, before4 := e.Int(BitOffset)
	fromStart, since4 := e.Int(DataBitOffset)
	if before4 && since4 {
		return m, errors.New("a member has two offsets")
	}
	if m.Bits, _ = e.Int(BitSize); m.Bits <= 0 {
		return m, nil
	}
	if m.BitOffset = fromStart; fromStart == 0 && m.Offset > 0 {
		// DWARF 3: the offset counts from the most significant bit of the storage unit.
		size, _ := e.Int(ByteSize)
		m.BitOffset = 8*m.Offset + 8*size - fromHigh - m.Bits
	}
	return m, nil
}

// maxDimensions bounds the dimensions of an array: Fortran allows 15.
const maxDimensions = 32

// Dimensions returns the number of elements of an array in each of its dimensions, 0 if it is
// not known.
func (e *Entry) Dimensions() ([]uint32, error) {
	var dims []uint32
	var kid Entry
	for in := e.Inside(); ; {
		ok, err := in.Next(&kid, TagSubrangeType, TagEnumerationType)
		switch {
		case err != nil:
			return nil, err
		case !ok && len(dims) == 0: // LLVM writes none for x[]
			return []uint32{0}, nil
		case !ok:
			return dims, nil
		case kid.Tag == TagEnumerationType:
			return nil, errors.New("an enumeration as an array's bound is not known")
		case len(dims) == maxDimensions:
			return nil, fmt.Errorf("dimensions of an array: %w", elffile.ErrTooLarge)
		}
		n, ok := kid.Int(Count)
		if !ok {
			// The length is one more. x[] has no upper bound.
			if n, ok = kid.Int(UpperBound); ok {
				n++
			}
		}
		dims = append(dims, uint32(max(n, 0)))
	}
}
