package dwarf

import "fmt"

// PlaceKind is a kind of place.
type PlaceKind uint8

// These are the kinds of places.
const (
	PlaceNone      PlaceKind = iota // the entry does not say
	PlaceGone                       // optimized out: the variable has no value
	PlaceElsewhere                  // it has a value at other addresses only
	PlaceRegister                   // the register Reg
	PlaceSum                        // the value is that of the register Reg plus Offset
	PlaceConst                      // the value is Offset
	PlaceCFA                        // memory at the call frame's address (6.4) plus Offset
	PlaceMemory                     // memory at the register Reg plus Offset
	PlaceFrame                      // a slot in the frame: it exists after the prologue
	PlaceOther                      // an expression that PlaceAt does not evaluate
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
	switch {
	case u.version < 5 && u.inDWO:
		u.splitLocations(v.n, found)
		return expr, ok
	case u.version < 5:
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

// splitLocations calls f for the entries of a list of .debug_loc.dwo, with which GCC and clang split
// DWARF 4 (DW_LLE_GNU_…, https://gcc.gnu.org/wiki/DebugFission), until it returns true.
func (u *unit) splitLocations(off uint64, f func(lo, hi uint64, b []byte) bool) {
	if off >= uint64(len(u.d.loc)) {
		return
	}
	c := cursor{b: u.d.loc, off: int(off), be: u.d.be}
	base := u.low
	for at := c.off; ; at = c.off {
		var lo, hi uint64
		kind := c.u8()
		switch kind {
		case 1: // base_address_selection_entry
			base, _ = u.addrx(c.uleb())
		case 2: // start_end_entry
			lo, _ = u.addrx(c.uleb())
			hi, _ = u.addrx(c.uleb())
		case 3: // start_length_entry
			lo, _ = u.addrx(c.uleb())
			hi = lo + uint64(c.u32())
		case 4: // offset_pair_entry
			lo, hi = base+uint64(c.u32()), base+uint64(c.u32())
		default: // the end of the list, or an unknown entry
			return
		}
		var b []byte
		if kind != 1 {
			b = c.take(int(c.u16()))
		}
		if c.bad || !u.d.looked(c.off-at) || kind != 1 && f(lo, hi, b) {
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
