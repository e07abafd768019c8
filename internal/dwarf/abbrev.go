package dwarf

// abbrev describes entries of one shape.
type abbrev struct {
	tag      uint32
	children bool
	attrs    []attrSpec
	// fixed is the size of the entry if it does not depend on its contents, -1
	// if it does.
	fixed int
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
}

func (t *abbrevTable) get(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		return &t.dense[code-1]
	}
	return t.sparse[code]
}

// maxAbbrevs bounds a table: a byte each is the least that one takes.
const maxAbbrevs = 1 << 20

// abbrevs returns the table at an offset of .debug_abbrev, parsed for a unit's
// sizes of addresses and offsets.
func (d *Data) abbrevs(off uint64, u *unit) *abbrevTable {
	key := abbrevKey{off, u.addrSize, u.offSize, u.version == 2}
	if t, ok := d.abbrevTables[key]; ok {
		return t
	}
	t := d.parseAbbrevs(off, u)
	d.abbrevTables[key] = t
	return t
}

type abbrevKey struct {
	off              uint64
	addrSize         int
	offSize          int
	refAddrIsAddress bool // DWARF 2
}

func (d *Data) parseAbbrevs(off uint64, u *unit) *abbrevTable {
	t := &abbrevTable{}
	if off >= uint64(len(d.abbrev)) {
		return t
	}
	c := cursor{b: d.abbrev, off: int(off), be: d.be}
	for n := 0; n < maxAbbrevs; n++ {
		// Tables that follow each other take each byte once; units of a malformed
		// file that all begin elsewhere in one table must not multiply it.
		if d.abbrevUsed > len(d.abbrev) {
			return t
		}
		code := c.uleb()
		if code == 0 || c.bad {
			return t
		}
		a := abbrev{tag: uint32(c.uleb()), children: c.u8() != 0}
		// One array holds the attributes of many entries; where it has to grow,
		// the earlier ones keep theirs.
		if cap(d.attrs)-len(d.attrs) < 16 {
			d.attrs = make([]attrSpec, 0, 1024)
		}
		first := len(d.attrs)
		for {
			name, form := c.uleb(), c.uleb()
			s := attrSpec{name: uint16(name), form: uint16(form)}
			if form == formImplicitConst {
				s.implicit = c.sleb()
			}
			if name == 0 && form == 0 || c.bad {
				break
			}
			if name > 0xffff || form >= formSkip {
				s.name, s.form = 0, 0xffff // not known: reading it fails
			}
			d.abbrevUsed++
			d.addAttr(&a, s, u.formSize(s.form), len(d.attrs) > first)
		}
		a.attrs = d.attrs[first:len(d.attrs):len(d.attrs)]
		d.abbrevUsed++
		if code == uint64(len(t.dense))+1 {
			t.dense = append(t.dense, a)
			continue
		}
		if t.sparse == nil {
			t.sparse = map[uint64]*abbrev{}
		}
		t.sparse[code] = &a
	}
	return t
}

// addAttr appends an attribute to those of an entry. What is of no use is only
// kept as a number of bytes to skip, together with what is next to it.
func (d *Data) addAttr(a *abbrev, s attrSpec, size int, more bool) {
	if size < 0 || a.fixed < 0 {
		a.fixed = -1
	} else {
		a.fixed += size
	}
	if size >= 0 && !wanted(a.tag, s.name) {
		if last := len(d.attrs) - 1; more && d.attrs[last].form == formSkip {
			d.attrs[last].implicit += int64(size)
		} else if size > 0 {
			d.attrs = append(d.attrs, attrSpec{form: formSkip, implicit: int64(size)})
		}
		return
	}
	switch size {
	case 1, 2, 4, 8:
		s.size = uint8(size)
	}
	d.attrs = append(d.attrs, s)
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
	for i := range a.attrs {
		if c.bad {
			return
		}
		if s := &a.attrs[i]; s.form == formSkip {
			c.skip(uint64(s.implicit))
		} else {
			u.read(c, *s)
		}
	}
}
