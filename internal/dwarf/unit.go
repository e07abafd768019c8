package dwarf

import (
	"cmp"
	"slices"
)

// unit is a compilation unit.
type unit struct {
	d        *Data
	off      uint64 // of its header in .debug_info
	end      uint64
	die      uint64 // of its first entry
	version  uint16
	addrSize int
	offSize  int          // 4, or 8 in the 64-bit format
	abbrev   *abbrevTable // nil: not parsed yet
	// wholeAbbrev is the table with all attributes.
	wholeAbbrev *abbrevTable // nil: not parsed yet

	abbrevOff uint64

	low                  uint64 // base of its ranges
	strOffsets, addrBase uint64
	rnglists, gnuRanges  uint64
	loclists             uint64
	language             uint16
	producer             value
	lineOff              uint64
	hasLine              bool
	compDir, file        value
	dwoName              value
	dwoID                uint64
	inDWO                bool // it is a split unit
	splitUnit            *unit
	splitTried           bool

	lines *lineTable // nil: not decoded yet
	funcs *funcTable // nil: not decoded yet
}

// unitRange is a range of addresses with code of a unit.
type unitRange struct {
	lo, hi uint64
	unit   int32
}

// maxUnits bounds the number of units. A kernel has about 5,000, a browser 50,000.
const maxUnits = 1 << 22

// leastUnit is the least average size of units, so that malformed files of empty units do not
// take twenty times their size.
const leastUnit = 24

// These are the costs in bytes of a unit and of one of its ranges, with the search index.
const (
	unitCost  = 304
	rangeCost = 40
)

// index reads the headers and first entries of all units.
func (d *Data) index() {
	c := cursor{b: d.info, be: d.be}
	most := min(maxUnits, len(d.info)/leastUnit+64)
	for c.off < len(d.info) && len(d.units) < most {
		u, ok := d.unitAt(&c)
		if !ok {
			d.lack(ErrMalformed)
			break
		}
		if u != nil {
			room := d.left() - unitCost
			if d.units = push(d.units, u, &room); room < 0 {
				d.lackRoom(room)
				break
			}
			d.grew(unitCost)
			u.readRoot(int32(len(d.units) - 1))
		}
	}
	slices.SortFunc(d.ranges, func(a, b unitRange) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi))
	})
	// If ranges overlap (identical functions folded into one), an address may be in an earlier
	// range than the last one that begins before it.
	max := uint64(0)
	d.reach = make([]uint64, len(d.ranges))
	for i := range d.ranges {
		if d.ranges[i].hi > max {
			max = d.ranges[i].hi
		}
		d.reach[i] = max
	}
}

// unitAt reads a unit's header (7.5.1) and moves behind the unit. u is nil for a unit of
// another kind. ok is false if there is no further unit.
func (d *Data) unitAt(c *cursor) (u *unit, ok bool) {
	u = &unit{d: d, off: uint64(c.off), offSize: 4}
	size := uint64(c.u32())
	if size == 0xffffffff {
		u.offSize = 8
		size = c.u64()
	} else if size >= 0xfffffff0 {
		return nil, false
	}
	if c.bad || size > uint64(len(c.b)-c.off) {
		return nil, false
	}
	u.end = uint64(c.off) + size
	h := cursor{b: c.b[:u.end], off: c.off, be: c.be}
	c.off = int(u.end)
	u.version = h.u16()
	var abbrevOff uint64
	kind := uint8(0)
	switch {
	case u.version >= 2 && u.version <= 4:
		abbrevOff = h.uint(u.offSize)
		u.addrSize = int(h.u8())
	case u.version == 5:
		kind = h.u8()
		u.addrSize = int(h.u8())
		abbrevOff = h.uint(u.offSize)
	default:
		return nil, true
	}
	switch kind {
	case utType, utSplitType:
		return nil, true
	case utSkeleton, utSplit:
		u.dwoID = h.u64()
	}
	if h.bad || u.addrSize != 4 && u.addrSize != 8 {
		return nil, true
	}
	u.die = uint64(h.off)
	u.abbrevOff = abbrevOff
	return u, true
}

// cursorAt returns a cursor at an offset of .debug_info, which ends at the end of the unit.
func (u *unit) cursorAt(off uint64) cursor {
	if off < u.die || off >= u.end {
		return cursor{bad: true}
	}
	return cursor{b: u.d.info[:u.end], off: int(off), be: u.d.be}
}

// readRoot reads the unit's own entry and records its ranges.
func (u *unit) readRoot(index int32) {
	c := u.cursorAt(u.die)
	a, attrs := u.rootAttrs(c.uleb())
	if a == nil || c.bad {
		u.d.lack(ErrMalformed)
		return
	}
	var low, high, ranges value
	for _, s := range attrs {
		v := u.read(&c, s)
		switch s.name {
		case attrLowPC:
			low = v
		case attrHighPC:
			high = v
		case attrRanges:
			ranges = v
		case attrStmtList:
			u.lineOff, u.hasLine = v.n, true
		case attrName:
			u.file = v
		case attrCompDir:
			u.compDir = v
		case attrStrOffsetsBase:
			u.strOffsets = v.n
		case attrAddrBase, attrGNUAddrBase:
			u.addrBase = v.n
		case attrRnglistsBase:
			u.rnglists = v.n
		case attrLoclistsBase:
			u.loclists = v.n
		case attrProducer:
			u.producer = v
		case attrLanguage:
			u.language = uint16(v.n)
		case attrGNURangesBase:
			u.gnuRanges = v.n
		case attrDwoName, attrGNUDwoName:
			u.dwoName = v
		case attrGNUDwoID:
			u.dwoID = v.n
		}
	}
	if c.bad {
		return
	}
	// Its meaning depends on the base, which may be after it.
	u.low, _ = u.addr(low)
	if a.tag == tagPartialUnit {
		return
	}
	n := len(u.d.ranges)
	add := func(lo, hi uint64) {
		room := u.d.left()
		if u.d.ranges = push(u.d.ranges, unitRange{lo, hi, index}, &room); room >= 0 {
			u.d.grew(rangeCost)
		}
		u.d.lackRoom(room)
	}
	u.ranges(low, high, ranges, add)
	if !u.hasLine || ranges.form != 0 || len(u.d.ranges) > n && u.version > 2 {
		return
	}
	// DWARF 2 cannot describe a unit's code in several places, but the ranges of its functions
	// do.
	for _, r := range u.funcTableOf().ranges {
		add(r.lo, r.hi)
	}
}

// own returns a string of the unit's own entry.
func (u *unit) own(v value) []byte { return u.str(v, u.d.info[:u.end]) }

// Identical functions of several units are folded into one, which is in the ranges of all of
// these units. maxFolded bounds the units tried for one address, of which few contain it.
// maxBehind bounds the ranges searched backwards: few ranges that end before the address begin
// after one that contains it.
const (
	maxFolded = 64
	maxBehind = 4096
)

// find calls f for the units with ranges that contain an address, until it returns true.
func (d *Data) find(pc uint64, f func(*unit) bool) {
	i, j := 0, len(d.ranges)
	for i < j {
		if m := int(uint(i+j) >> 1); d.ranges[m].lo <= pc {
			i = m + 1
		} else {
			j = m
		}
	}
	end, asked := max(i-maxBehind, 0), 0
	for i--; i >= end && d.reach[i] > pc && asked < maxFolded; i-- {
		if r := &d.ranges[i]; pc < r.hi {
			if asked++; f(d.units[r.unit]) {
				return
			}
		}
	}
}

// unitOf returns the unit that contains an offset of .debug_info.
func (d *Data) unitOf(off uint64) *unit {
	i, ok := slices.BinarySearchFunc(d.units, off, func(u *unit, off uint64) int {
		return cmp.Compare(u.off, off)
	})
	if !ok {
		i--
	}
	if i < 0 || off >= d.units[i].end {
		return nil
	}
	return d.units[i]
}

// str returns the string of a value that was read from b, nil if the value is not a string.
func (u *unit) str(v value, b []byte) []byte {
	switch v.form {
	case formString:
		return strAt(b, v.n)
	case formStrp:
		return strAt(u.d.str, v.n)
	case formLineStrp:
		return strAt(u.d.lineStr, v.n)
	case formStrpSup, formGNUStrpAlt:
		if u.d.alt != nil {
			return strAt(u.d.alt.str, v.n)
		}
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		at := u.strOffsets + v.n*uint64(u.offSize)
		if v.n > uint64(len(u.d.strOffsets)) || at > uint64(len(u.d.strOffsets)) {
			return nil
		}
		c := cursor{b: u.d.strOffsets, off: int(at), be: u.d.be}
		if off := c.uint(u.offSize); !c.bad {
			return strAt(u.d.str, off)
		}
	}
	return nil
}

// addr returns the address of a value.
func (u *unit) addr(v value) (uint64, bool) {
	switch v.form {
	case formAddr:
		return v.n, true
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return u.addrx(v.n)
	}
	return 0, false
}

func (u *unit) addrx(i uint64) (uint64, bool) {
	at := u.addrBase + i*uint64(u.addrSize)
	if i > uint64(len(u.d.addr)) || at > uint64(len(u.d.addr)) {
		return 0, false
	}
	c := cursor{b: u.d.addr, off: int(at), be: u.d.be}
	a := c.uint(u.addrSize)
	return a, !c.bad
}

// ranges calls f for every range of an entry: from low to high, which may be relative to low,
// or a list.
func (u *unit) ranges(low, high, ranges value, f func(lo, hi uint64)) {
	if ranges.form != 0 {
		u.rangeList(ranges, f)
		return
	}
	lo, ok := u.addr(low)
	if !ok || high.form == 0 {
		return
	}
	hi, isAddr := u.addr(high)
	if !isAddr {
		hi = lo + high.n
	}
	u.emit(lo, hi, f)
}

// emit calls f for a range, unless it is empty. Code that the linker left out has its
// addresses set to 0, 1 or all ones.
func (u *unit) emit(lo, hi uint64, f func(lo, hi uint64)) {
	if lo < hi && lo > 1 && hi-lo < 1<<40 {
		f(lo, hi)
	}
}

// another reports whether one more entry of a range list may be read. Each list nearly always
// belongs to one entry, so reading all of them takes each byte once. In a malformed file, many
// entries may refer to one long list; that must not multiply it.
func (d *Data) another() bool {
	d.rangesRead++
	return d.rangesRead <= 4*(len(d.rangesSec)+len(d.rnglists))
}

func (u *unit) rangeList(v value, f func(lo, hi uint64)) {
	if u.version >= 5 {
		off := v.n
		if v.form == formRnglistx {
			at := u.rnglists + v.n*uint64(u.offSize)
			if v.n > uint64(len(u.d.rnglists)) || at > uint64(len(u.d.rnglists)) {
				return
			}
			c := cursor{b: u.d.rnglists, off: int(at), be: u.d.be}
			off = u.rnglists + c.uint(u.offSize)
			if c.bad {
				return
			}
		}
		u.rnglist(off, f)
		return
	}
	off := v.n
	if u.inDWO {
		off += u.gnuRanges
	}
	if off >= uint64(len(u.d.rangesSec)) {
		return
	}
	c := cursor{b: u.d.rangesSec, off: int(off), be: u.d.be}
	base, top := u.low, uint64(1)<<(8*uint(u.addrSize)-1)<<1-1
	for u.d.another() {
		lo, hi := c.uint(u.addrSize), c.uint(u.addrSize)
		switch {
		case c.bad || lo == 0 && hi == 0:
			return
		case lo == top:
			base = hi
		default:
			u.emit(base+lo, base+hi, f)
		}
	}
}

// rnglist reads a list of .debug_rnglists (7.25).
func (u *unit) rnglist(off uint64, f func(lo, hi uint64)) {
	if off >= uint64(len(u.d.rnglists)) {
		return
	}
	c := cursor{b: u.d.rnglists, off: int(off), be: u.d.be}
	base := u.low
	for u.d.another() {
		kind := c.u8()
		if c.bad {
			return
		}
		switch kind {
		case 0: // end of list
			return
		case 1: // base_addressx
			base, _ = u.addrx(c.uleb())
		case 2: // startx_endx
			lo, _ := u.addrx(c.uleb())
			hi, _ := u.addrx(c.uleb())
			u.emit(lo, hi, f)
		case 3: // startx_length
			lo, _ := u.addrx(c.uleb())
			u.emit(lo, lo+c.uleb(), f)
		case 4: // offset_pair
			lo, hi := c.uleb(), c.uleb()
			u.emit(base+lo, base+hi, f)
		case 5: // base_address
			base = c.uint(u.addrSize)
		case 6: // start_end
			lo, hi := c.uint(u.addrSize), c.uint(u.addrSize)
			u.emit(lo, hi, f)
		case 7: // start_length
			lo := c.uint(u.addrSize)
			u.emit(lo, lo+c.uleb(), f)
		default:
			return
		}
	}
}
