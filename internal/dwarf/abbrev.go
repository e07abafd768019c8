package dwarf

import (
	"math"
	"slices"
)

// abbrev describes entries of one shape. It contains no pointers, because a kernel has
// millions of them.
type abbrev struct {
	tag      uint32
	first    uint32 // index of its attributes in the table's
	n        uint16
	children bool
	kind     entryKind
	// fixed is the size of the entry, or -1 if it depends on the contents.
	fixed int32
}

// entryKind is the role of an entry for funcWalker.
type entryKind uint8

const (
	kindOther      entryKind = iota // not used itself; functions may be inside
	kindLeaf                        // no functions inside
	kindSubprogram                  // a function
	kindInlined                     // an inlined call
	kindUnit                        // a unit's own entry
)

func kindOf(tag uint64) entryKind {
	switch tag {
	case tagSubprogram:
		return kindSubprogram
	case tagInlinedSubroutine:
		return kindInlined
	case TagStructType, TagClassType, TagUnionType, TagEnumerationType, TagSubroutineType,
		TagArrayType,
		tagCallSite, tagGNUCallSite:
		return kindLeaf
	case tagCompileUnit, tagPartialUnit, tagSkeletonUnit:
		return kindUnit
	}
	return kindOther
}

// attrSpec is an attribute of a shape, in 8 bytes, because there are many.
type attrSpec struct {
	name uint16
	form form
	size uint8 // 1, 2, 4 or 8 if the value is a plain number of that size
	n    int32 // formImplicitConst: the value; formFarConst: its offset; formSkip: bytes
}

// abbrevTable contains the abbreviations of a unit by code. Codes are nearly always 1, 2, 3 …
type abbrevTable struct {
	dense  []abbrev
	sparse map[uint64]*abbrev
	attrs  []attrSpec
}

func (t *abbrevTable) get(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		return &t.dense[code-1]
	}
	return t.sparse[code]
}

// attrsOf returns the attributes of an entry of shape a, which must be from abbrevs.
func (u *unit) attrsOf(a *abbrev) []attrSpec {
	return u.abbrev.attrs[a.first : a.first+uint32(a.n)]
}

// maxAbbrevs bounds a table: an abbreviation has at least one byte.
const maxAbbrevs = 1 << 20

// abbrevs returns the unit's table for its sizes of addresses and offsets. It parses it at the
// first call.
func (u *unit) abbrevs() *abbrevTable {
	if u.abbrev == nil {
		u.abbrev = u.d.abbrevTable(u, u.abbrevKey())
	}
	return u.abbrev
}

type abbrevKey struct {
	off              uint64
	addrSize         int
	offSize          int
	refAddrIsAddress bool // DWARF 2
	whole            bool // with all attributes, not only those that positions need
}

func (u *unit) abbrevKey() abbrevKey {
	return abbrevKey{u.abbrevOff, u.addrSize, u.offSize, u.version == 2, false}
}

func (d *Data) abbrevTable(u *unit, key abbrevKey) *abbrevTable {
	t, ok := d.abbrevTables[key]
	if !ok {
		t = d.parseAbbrevs(u, key.whole)
		d.abbrevTables[key] = t
	}
	return t
}

func (d *Data) parseAbbrevs(u *unit, whole bool) *abbrevTable {
	t := &abbrevTable{}
	c := cursor{b: d.abbrev, off: int(min(u.abbrevOff, uint64(len(d.abbrev)))), be: d.be}
	list := d.abbrevBuf[:0]
	d.attrBuf = d.attrBuf[:0]
	room := d.left()
	for n := 0; n < maxAbbrevs && room >= 0; n++ {
		code, a, ok := d.parseAbbrev(u, &c, &room, whole)
		if !ok {
			break
		}
		if code == uint64(len(list))+1 {
			list = push(list, a, &room)
			continue
		}
		if room -= sparseCost; room < 0 {
			break
		}
		if t.sparse == nil {
			t.sparse = map[uint64]*abbrev{}
		}
		other := a // a copy, so that not every shape escapes to the heap
		t.sparse[code] = &other
	}
	d.lackRoom(room)
	t.dense, t.attrs, d.abbrevBuf = slices.Clone(list), slices.Clone(d.attrBuf), list
	d.grew(size(t.dense) + sparseCost*int64(len(t.sparse)) + size(t.attrs))
	return t
}

// sparseCost is the cost in bytes of an abbreviation in a map.
const sparseCost = 96

// rootAttrs returns the shape of a unit's own entry, which may be anywhere in the table, and
// its attributes, both valid until the next call. It does not parse the rest of the table:
// that is done when the unit's other entries are read.
func (u *unit) rootAttrs(code uint64) (*abbrev, []attrSpec) {
	d := u.d
	// Units often share a table, and then also the entry.
	r := &d.lastRoot
	key := u.abbrevKey()
	if r.key == key && r.code == code && r.attrs != nil {
		return &r.a, r.attrs
	}
	c := cursor{b: d.abbrev, off: int(min(u.abbrevOff, uint64(len(d.abbrev)))), be: d.be}
	for d.abbrevUsed <= abbrevUses*len(d.abbrev) {
		at := c.off
		got := c.uleb()
		if got == 0 || c.bad {
			break
		}
		if got == code {
			c.off = at
			d.attrBuf = d.attrBuf[:0]
			room := d.left()
			_, a, ok := d.parseAbbrev(u, &c, &room, false)
			if !ok {
				d.lackRoom(room)
				break
			}
			r.a, r.key, r.code, r.attrs = a, key, code, append(r.attrs[:0], d.attrBuf...)
			return &r.a, r.attrs
		}
		c.uleb() // tag
		c.u8()   // children
		for !c.bad {
			name, form := c.uleb(), c.uleb()
			if form == uint64(formImplicitConst) {
				c.sleb()
			}
			if name == 0 && form == 0 {
				break
			}
		}
		d.abbrevUsed += c.off - at
	}
	return nil, nil
}

// abbrevUses bounds how often each byte of the tables may be read. Tables follow each other,
// so twice is enough. In a malformed file, many units may begin at different offsets in one
// table; that must not multiply it.
const abbrevUses = 8

// parseAbbrev parses one shape and appends its attributes to attrBuf, within room. If whole is
// set, it appends all of them. ok is false at the end of the table.
func (d *Data) parseAbbrev(u *unit, c *cursor, room *int64, whole bool) (code uint64, a abbrev,
	ok bool,
) {
	if d.abbrevUsed > abbrevUses*len(d.abbrev) || len(d.attrBuf) > math.MaxUint32/2 {
		return 0, a, false
	}
	b := c.b
	code, i := leb(b, c.off)
	if code == 0 || i > len(b) {
		return 0, a, false
	}
	first := len(d.attrBuf)
	tag, i := leb(b, i)
	a = abbrev{tag: uint32(tag), kind: kindOf(tag), first: uint32(first)}
	if i < len(b) {
		a.children = b[i] != 0
	}
	i++
	sizes := d.formSizes(u)
	fixed, skip := 0, 0 // bytes; fixed is negative if the size depends on the contents
	for n := 0; n < math.MaxUint16/2; n++ {
		var name, what uint64
		if i+1 < len(b) && b[i]|b[i+1] < 0x80 { // one byte each: the usual case
			name, what, i = uint64(b[i]), uint64(b[i+1]), i+2
		} else {
			name, i = leb(b, i)
			what, i = leb(b, i)
		}
		f, value := formOf(what), int64(0)
		if f == formImplicitConst {
			at := i
			if value, i = sleb(b, i); value != int64(int32(value)) {
				f, value = formFarConst, int64(min(at, math.MaxInt32))
			}
		}
		if name == 0 && what == 0 || i > len(b) {
			break
		}
		size := int(sizes[f])
		if name > 0xffff {
			name, f, size = 0, formUnknown, -1 // makes reading it fail
		}
		d.abbrevUsed++
		if size >= 0 && !whole && !wanted(a.kind, name) {
			skip += size // not needed
			continue
		}
		if fixed += skip; skip > 0 {
			d.attrBuf = push(d.attrBuf, attrSpec{form: formSkip, n: int32(skip)}, room)
			skip = 0
		}
		d.attrBuf = push(d.attrBuf, attrSpec{uint16(name), f, plainSize(size), int32(value)}, room)
		if fixed += size; size < 0 {
			fixed = math.MinInt32
		}
	}
	if fixed += skip; skip > 0 {
		d.attrBuf = push(d.attrBuf, attrSpec{form: formSkip, n: int32(skip)}, room)
	}
	a.fixed = int32(max(fixed, -1))
	c.off = min(i, len(b))
	a.n = uint16(len(d.attrBuf) - first)
	d.abbrevUsed++
	return code, a, *room >= 0
}

// plainSize returns attrSpec.size for a form of the given size.
func plainSize(size int) uint8 {
	switch size {
	case 1, 2, 4, 8:
		return uint8(size)
	}
	return 0
}

// wanted reports whether the attribute is used for entries of that kind.
func wanted(kind entryKind, name uint64) bool {
	switch kind {
	case kindUnit:
		return true
	case kindLeaf:
		return name == attrSibling
	case kindSubprogram, kindInlined:
		switch name {
		case attrSibling, attrName, attrLowPC, attrHighPC, attrRanges, attrAbstractOrigin,
			attrSpecification,
			attrLinkageName, attrMIPSLinkage, attrCallFile, attrCallLine, attrCallColumn:
			return true
		}
	}
	return false
}

// formSizes returns the sizes of all forms in a unit. They are nearly always the same for all
// units of a file.
func (d *Data) formSizes(u *unit) *[256]int8 {
	key := u.abbrevKey()
	key.off = 0
	if d.sizesOf != key {
		d.sizesOf = key
		for f := range d.sizes {
			d.sizes[f] = int8(u.formSize(form(f)))
		}
	}
	return &d.sizes
}

// formSize returns the size of a value of form f, -1 if it depends on the value.
func (u *unit) formSize(f form) int {
	switch f {
	case formFlagPresent, formImplicitConst, formFarConst:
		return 0
	case formData1, formFlag, formRef1, formStrx1, formAddrx1:
		return 1
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2
	case formStrx3, formAddrx3:
		return 3
	case formData4, formRef4, formRefSup4, formStrx4, formAddrx4:
		return 4
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8
	case formData16:
		return 16
	case formAddr:
		return u.addrSize
	case formRefAddr:
		if u.version == 2 {
			return u.addrSize
		}
		return u.offSize
	case formStrp, formSecOffset, formStrpSup, formLineStrp, formGNURefAlt, formGNUStrpAlt:
		return u.offSize
	}
	return -1
}

// value is an attribute's value: a number, or the offset of a string, with the form that
// defines the number's meaning.
type value struct {
	form form
	size uint32 // of a block
	n    uint64 // for formString and blocks, the offset in the bytes that were read
}

// read reads one attribute.
func (u *unit) read(c *cursor, s attrSpec) value {
	if s.size > 0 { // the usual case
		return value{form: s.form, n: c.uint(int(s.size))}
	}
	f := s.form
	if f == formIndirect {
		f = formOf(c.uleb())
		if f == formIndirect || f == formImplicitConst {
			c.bad = true
		}
	}
	v := value{form: f}
	switch f {
	case formFlagPresent:
		v.n = 1
	case formImplicitConst:
		v.n = uint64(s.n)
	case formFarConst:
		n, _ := sleb(u.d.abbrev, int(s.n))
		v = value{form: formImplicitConst, n: uint64(n)}
	case formSkip:
		c.skip(uint64(s.n))
	case formSdata:
		v.n = uint64(c.sleb())
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex,
		formGNUStrIndex:
		v.n = c.uleb()
	case formString:
		v.n = uint64(c.off)
		c.str()
	case formBlock, formExprloc:
		v.block(c, c.uleb())
	case formBlock1:
		v.block(c, uint64(c.u8()))
	case formBlock2:
		v.block(c, uint64(c.u16()))
	case formBlock4:
		v.block(c, uint64(c.u32()))
	case formStrx3, formAddrx3:
		v.n = uint64(c.u24())
	case formData16:
		c.skip(16)
	default:
		size := u.formSize(f)
		if size < 0 {
			c.bad = true // unknown: what follows cannot be found
			return v
		}
		v.n = c.uint(size)
	}
	return v
}

// block reads a block of n bytes.
func (v *value) block(c *cursor, n uint64) {
	v.n, v.size = uint64(c.off), uint32(min(n, math.MaxUint32))
	c.skip(n)
}

// skipEntry returns the offset behind the attributes of an entry, which begin at b[off:]. It
// is beyond b if they are truncated.
func (u *unit) skipEntry(b []byte, off int, a *abbrev) int {
	attrs := u.attrsOf(a)
	for i := range attrs {
		switch s := &attrs[i]; s.form {
		case formSkip:
			off += int(s.n)
		case formExprloc, formBlock:
			var n uint64
			if n, off = leb(b, off); n > uint64(len(b)) {
				return len(b) + 1
			}
			off += int(n)
		case formUdata:
			_, off = leb(b, off)
		default:
			c := cursor{b: b, off: min(off, len(b)), be: u.d.be, bad: off > len(b)}
			if u.read(&c, *s); c.bad {
				return len(b) + 1
			}
			off = c.off
		}
	}
	return off
}
