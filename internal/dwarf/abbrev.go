package dwarf

import (
	"math"
	"slices"
)

// abbrev describes entries of one shape. It holds no pointers, as a kernel has
// millions of them.
type abbrev struct {
	tag      uint32
	first    uint32 // its attributes in the table's
	n        uint16
	children bool
	// fixed is the size of the entry if it does not depend on its contents, -1
	// if it does.
	fixed int32
}

type attrSpec struct {
	name     uint16
	form     uint16
	size     uint8 // 1, 2, 4 or 8 if that is the value's size and all there is to it
	implicit int64
}

// abbrevTable holds the abbreviations of a unit by code; codes are nearly
// always 1, 2, 3 …
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

// attrsOf returns the attributes of an entry of that shape, which abbrevs gave.
func (u *unit) attrsOf(a *abbrev) []attrSpec {
	return u.abbrev.attrs[a.first : a.first+uint32(a.n)]
}

// maxAbbrevs bounds a table: a byte each is the least that one takes.
const maxAbbrevs = 1 << 20

// abbrevs returns the unit's table, parsed when it is first asked for: for the
// sizes of addresses and offsets that the unit has.
func (u *unit) abbrevs() *abbrevTable {
	if u.abbrev != nil {
		return u.abbrev
	}
	key := abbrevKey{u.abbrevOff, u.addrSize, u.offSize, u.version == 2}
	t, ok := u.d.abbrevTables[key]
	if !ok {
		t = u.d.parseAbbrevs(u)
		u.d.abbrevTables[key] = t
	}
	u.abbrev = t
	return t
}

type abbrevKey struct {
	off              uint64
	addrSize         int
	offSize          int
	refAddrIsAddress bool // DWARF 2
}

func (d *Data) parseAbbrevs(u *unit) *abbrevTable {
	t := &abbrevTable{}
	c := cursor{b: d.abbrev, off: int(min(u.abbrevOff, uint64(len(d.abbrev)))), be: d.be}
	list := d.abbrevBuf[:0]
	d.attrBuf = d.attrBuf[:0]
	for n := 0; n < maxAbbrevs; n++ {
		code, a, ok := d.parseAbbrev(u, &c)
		if !ok {
			break
		}
		if code == uint64(len(list))+1 {
			list = append(list, a)
			continue
		}
		if t.sparse == nil {
			t.sparse = map[uint64]*abbrev{}
		}
		t.sparse[code] = &a
	}
	t.dense, t.attrs, d.abbrevBuf = slices.Clone(list), slices.Clone(d.attrBuf), list
	d.grew(int64(20*len(list) + 80*len(t.sparse) + 16*len(t.attrs)))
	return t
}

// rootAttrs returns the shape of a unit's own entry, which may be anywhere in the
// table, and its attributes, both valid until the next call. The rest of the table
// is parsed when the unit is looked into.
func (u *unit) rootAttrs(code uint64) (*abbrev, []attrSpec) {
	d := u.d
	// Units often share a table, and then the entry.
	r := &d.lastRoot
	key := abbrevKey{u.abbrevOff, u.addrSize, u.offSize, u.version == 2}
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
			_, r.a, _ = d.parseAbbrev(u, &c)
			r.key, r.code, r.attrs = key, code, append(r.attrs[:0], d.attrBuf...)
			return &r.a, r.attrs
		}
		c.uleb() // tag
		c.u8()   // children
		for !c.bad {
			name, form := c.uleb(), c.uleb()
			if form == formImplicitConst {
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

// abbrevUses is how often each byte of the tables may be read. Tables follow each
// other, so that twice is enough; units of a malformed file that all begin
// elsewhere in one table must not multiply it.
const abbrevUses = 8

// parseAbbrev parses one shape; its attributes are appended to attrBuf. It ends
// with the table.
func (d *Data) parseAbbrev(u *unit, c *cursor) (code uint64, a abbrev, ok bool) {
	if d.abbrevUsed > abbrevUses*len(d.abbrev) || len(d.attrBuf) > math.MaxUint32/2 {
		return 0, a, false
	}
	code = c.uleb()
	if code == 0 || c.bad {
		return 0, a, false
	}
	first := len(d.attrBuf)
	a = abbrev{tag: uint32(c.uleb()), children: c.u8() != 0, first: uint32(first)}
	for {
		name, form := c.uleb(), c.uleb()
		s := attrSpec{name: uint16(name), form: uint16(form)}
		if form == formImplicitConst {
			s.implicit = c.sleb()
		}
		if name == 0 && form == 0 || c.bad || len(d.attrBuf)-first >= math.MaxUint16 {
			break
		}
		if name > 0xffff || form >= formSkip {
			s.name, s.form = 0, 0xffff // not known: reading it fails
		}
		d.abbrevUsed++
		d.addAttr(&a, s, u.formSize(s.form), len(d.attrBuf) > first)
	}
	a.n = uint16(len(d.attrBuf) - first)
	d.abbrevUsed++
	return code, a, true
}

// addAttr appends an attribute to those of an entry. What is of no use is only
// kept as a number of bytes to skip, together with what is next to it.
func (d *Data) addAttr(a *abbrev, s attrSpec, size int, more bool) {
	if size < 0 || a.fixed < 0 {
		a.fixed = -1
	} else {
		a.fixed += int32(size)
	}
	if size >= 0 && !wanted(a.tag, s.name) {
		if last := len(d.attrBuf) - 1; more && d.attrBuf[last].form == formSkip {
			d.attrBuf[last].implicit += int64(size)
		} else if size > 0 {
			d.attrBuf = append(d.attrBuf, attrSpec{form: formSkip, implicit: int64(size)})
		}
		return
	}
	switch size {
	case 1, 2, 4, 8:
		s.size = uint8(size)
	}
	d.attrBuf = append(d.attrBuf, s)
}

// wanted reports whether an attribute of an entry is ever asked for.
func wanted(tag uint32, name uint16) bool {
	switch tag {
	case tagCompileUnit, tagPartialUnit, tagSkeletonUnit:
		return true
	case tagSubprogram, tagInlinedSubroutine:
		switch name {
		case attrSibling, attrName, attrLowPC, attrHighPC, attrRanges, attrAbstractOrigin, attrSpecification,
			attrLinkageName, attrMIPSLinkage, attrCallFile, attrCallLine, attrCallColumn:
			return true
		}
		return false
	}
	return name == attrSibling
}

// formSkip stands for values that are skipped, attrSpec.implicit bytes of them.
const formSkip = 0xfffe

// formSize is the size of a value of that form, -1 if it depends on the value.
func (u *unit) formSize(form uint16) int {
	switch form {
	case formFlagPresent, formImplicitConst:
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

// value is an attribute's value: a number, or bytes, with the form that says
// what the number means.
type value struct {
	form uint16
	n    uint64
	b    []byte // of formString
}

// read reads one attribute.
func (u *unit) read(c *cursor, s attrSpec) value {
	form := s.form
	if s.size > 0 { // nearly always
		return value{form: form, n: c.uint(int(s.size))}
	}
	if form == formIndirect {
		form = uint16(c.uleb())
		if form == formIndirect || form == formImplicitConst {
			c.bad = true
		}
	}
	v := value{form: form}
	switch form {
	case formFlagPresent:
		v.n = 1
	case formImplicitConst:
		v.n = uint64(s.implicit)
	case formSkip:
		c.skip(uint64(s.implicit))
	case formSdata:
		v.n = uint64(c.sleb())
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		v.n = c.uleb()
	case formString:
		v.b = c.str()
	case formBlock, formExprloc:
		c.skip(c.uleb())
	case formBlock1:
		c.skip(uint64(c.u8()))
	case formBlock2:
		c.skip(uint64(c.u16()))
	case formBlock4:
		c.skip(uint64(c.u32()))
	case formStrx3, formAddrx3:
		v.n = uint64(c.u24())
	case formData16:
		c.skip(16)
	default:
		size := u.formSize(form)
		if size < 0 {
			c.bad = true // not known: what follows cannot be found
			return v
		}
		v.n = c.uint(size)
	}
	return v
}

// skipEntry skips the attributes of an entry.
func (u *unit) skipEntry(c *cursor, a *abbrev) {
	if a.fixed >= 0 {
		c.skip(uint64(a.fixed))
		return
	}
	attrs := u.attrsOf(a)
	for i := range attrs {
		if c.bad {
			return
		}
		if s := &attrs[i]; s.form == formSkip {
			c.skip(uint64(s.implicit))
		} else {
			u.read(c, *s)
		}
	}
}
