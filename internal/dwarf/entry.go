package dwarf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/borescope/borescope/internal/elffile"
)

// Entry is an entry, for reading types: its tag and some of its attributes. It has no memory
// of its own, and is meant to be reused.
type Entry struct {
	Tag      uint32
	Children bool // it may have children
	u        *unit
	off      uint64
	end      uint64 // of its attributes
	values   [numAttrs]value
}

// Attr is an attribute that Entry reads.
type Attr uint8

// These are the attributes; 7.5.4 defines them.
const (
	Name Attr = 1 + iota
	Type
	ByteSize
	BitSize
	BitOffset     // before DWARF 4: from the most significant bit of the storage
	DataBitOffset // from the structure's start
	Location      // of a member
	Encoding
	Count
	UpperBound
	ConstValue
	Declaration
	VariableParameter // in Go, the parameter is a result
	LowPC
	Origin
	Specification
	Sibling
	Value // the location of a variable: PlaceAt
	FrameBase
	EntryPC
	Ranges
	Artificial
	Virtuality
	Convention // how a function is called, and objects of a class are passed
	Defaulted  // a function is "= default"
	Deleted    // a function is "= delete"
	Vector     // an array is a vector of the processor's
	numAttrs
)

// attrOf returns the Attr with a number in a file, 0 for any other attribute.
func attrOf(number uint16) Attr {
	if int(number) < len(attrs) {
		return attrs[number]
	}
	switch number {
	case 0x8a:
		return Deleted
	case 0x8b:
		return Defaulted
	case 0x2107: // DW_AT_GNU_vector
		return Vector
	}
	return 0
}

// attrs maps the numbers of attributes, nearly all of which are small, to Attr; 0 is any other
// attribute.
var attrs = [128]Attr{
	attrName: Name, 0x49: Type, 0x0b: ByteSize, 0x0d: BitSize, 0x0c: BitOffset, 0x6b: DataBitOffset,
	0x38: Location, 0x3e: Encoding, 0x37: Count, 0x2f: UpperBound, 0x1c: ConstValue, 0x3c: Declaration,
	0x4b: VariableParameter, attrLowPC: LowPC, attrAbstractOrigin: Origin,
	attrSpecification: Specification,
	attrSibling:       Sibling,
	0x02:              Value, 0x40: FrameBase, 0x52: EntryPC, attrRanges: Ranges, 0x34: Artificial,
	0x4c: Virtuality, 0x36: Convention,
}

// Ref is the position of an entry.
type Ref struct {
	u   *unit
	off uint64
}

// errEntry is the error for a malformed entry.
var errEntry = errors.New("malformed DWARF entry")

// These bound how many entries of one file are read in all: a constant, and more for large
// files. The entries of a type are read again for each function that uses it.
const (
	leastEntries = 4 << 20
	entryBytes   = 8
)

// count counts an entry that is read. It returns an error if there are too many.
func (u *unit) count() error {
	d := u.d.outer()
	if d.entries++; d.entries > leastEntries+len(d.info)/entryBytes {
		return fmt.Errorf("DWARF entries: %w", elffile.ErrTooLarge)
	}
	return nil
}

// outer returns the DWARF that d is part of, or d itself.
func (d *Data) outer() *Data {
	if d.parent != nil {
		return d.parent
	}
	return d
}

// Spend subtracts n bytes, for what the caller makes from decoded data, from those that may be
// decoded. They are not returned. The error is ErrTooLarge if they do not fit.
func (d *Data) Spend(n int) error {
	if int64(n) > d.left() {
		return fmt.Errorf("what DWARF says: %w", elffile.ErrTooLarge)
	}
	d.grew(int64(n))
	return nil
}

// Read reads the entry at r.
func (e *Entry) Read(r Ref) error {
	if r.u == nil {
		return errEntry
	}
	*e = Entry{u: r.u, off: r.off}
	if err := r.u.count(); err != nil {
		return err
	}
	c := r.u.cursorAt(r.off)
	code, t := c.uleb(), r.u.whole()
	a := t.get(code)
	if e.end = uint64(c.off); code == 0 && !c.bad {
		return nil // the end of a list of children
	}
	if a == nil {
		return errEntry
	}
	e.Tag, e.Children = a.tag, a.children
	for _, s := range t.attrs[a.first : a.first+uint32(a.n)] {
		v := r.u.read(&c, s)
		if at := &e.values[attrOf(s.name)]; at.form == 0 {
			*at = v
		}
	}
	e.end = uint64(c.off)
	if c.bad {
		return errEntry
	}
	return nil
}

// whole returns the unit's table with all attributes. It parses it at the first call.
func (u *unit) whole() *abbrevTable {
	if u.wholeAbbrev == nil {
		key := u.abbrevKey()
		key.whole = true
		u.wholeAbbrev = u.d.abbrevTable(u, key)
	}
	return u.wholeAbbrev
}

// Ref returns the entry's position.
func (e *Entry) Ref() Ref { return Ref{e.u, e.off} }

// Has reports whether the entry has an attribute.
func (e *Entry) Has(a Attr) bool { return e.values[a].form != 0 }

// Text returns an attribute that is a string, or "".
func (e *Entry) Text(a Attr) string {
	return string(e.u.str(e.values[a], e.u.d.info[:e.u.end]))
}

// Int returns an attribute that is a number.
func (e *Entry) Int(a Attr) (n int64, ok bool) {
	switch v := e.values[a]; v.form {
	case formData1, formData2, formData4, formData8, formSdata, formUdata, formImplicitConst,
		formSecOffset:
		return int64(v.n), true
	}
	return 0, false
}

// Flag reports whether an attribute is set.
func (e *Entry) Flag(a Attr) bool {
	v := e.values[a]
	return v.n == 1 && (v.form == formFlag || v.form == formFlagPresent)
}

// Link returns the entry that an attribute refers to. ok is false for an entry in the file to
// which dwz moved common parts.
func (e *Entry) Link(a Attr) (r Ref, ok bool) {
	v := e.values[a]
	if v.form == formRefSig8 {
		return e.u.d.outer().signature(v.n), true
	}
	off, ok := e.u.ref(v)
	if !ok || e.u.isAlt(v) {
		return Ref{}, false
	}
	if off >= e.u.die && off < e.u.end {
		return Ref{e.u, off}, true
	}
	return Ref{e.u.d.unitOf(off), off}, true
}

// Owner returns the entry that has an attribute: this one, or the declaration or abstract
// instance that it refers to. If none has it, the result has no attributes.
func (e *Entry) Owner(a Attr) Entry {
	o := *e
	for range 4 {
		if o.Has(a) {
			return o
		}
		r, ok := o.Link(Origin)
		if !ok {
			if r, ok = o.Link(Specification); !ok {
				break
			}
		}
		if o.Read(r) != nil {
			break
		}
	}
	return Entry{u: e.u}
}

// Language returns the language of the entry's unit (7.12), 0 if it is not known.
func (e *Entry) Language() uint16 { return e.u.language }

// LLVM reports whether the entry's unit was compiled by LLVM: by clang, rustc and others.
func (e *Entry) LLVM() bool {
	by := e.u.own(e.u.producer)
	return bytes.Contains(by, []byte("clang")) || bytes.Contains(by, []byte("LLVM"))
}

// Inside iterates over the children of an entry.
type Inside struct {
	u   *unit
	off uint64 // of the next child; 0: there is none
}

// Inside returns an iterator over the children of e.
func (e *Entry) Inside() Inside {
	if !e.Children {
		return Inside{}
	}
	return Inside{e.u, e.end}
}

// Next reads the next child that has one of the tags. It returns false at the end.
func (i *Inside) Next(e *Entry, tags ...uint32) (bool, error) {
	for i.off != 0 && i.off < i.u.end {
		if err := e.Read(Ref{i.u, i.off}); err != nil || e.Tag == 0 {
			return false, err
		}
		var err error
		if i.off, err = e.behind(); err != nil {
			return false, err
		}
		if slices.Contains(tags, e.Tag) {
			return true, nil
		}
	}
	return false, nil
}

// behind returns the offset behind an entry and all entries inside it.
func (e *Entry) behind() (uint64, error) {
	if !e.Children {
		return e.end, nil
	}
	if r, ok := e.Link(Sibling); ok && r.u == e.u && r.off > e.off {
		return r.off, nil
	}
	u, b, off := e.u, e.u.d.info[:e.u.end], int(e.end)
	for depth := 1; depth > 0 && off < len(b); {
		if err := u.count(); err != nil {
			return 0, err
		}
		code, next := leb(b, off)
		if off = next; code == 0 {
			depth--
			continue
		}
		a := u.abbrevs().get(code)
		if a == nil {
			return 0, errEntry
		}
		if a.children {
			depth++
		}
		if a.fixed >= 0 {
			off += int(a.fixed)
		} else {
			off = u.skipEntry(b, off, a)
		}
	}
	return uint64(off), nil
}

// FunctionAt reads the entry of the function that begins at an address. If several functions
// are folded into one, it reads the first.
func (d *Data) FunctionAt(pc uint64, e *Entry) error {
	var units []*unit
	d.find(pc, func(u *unit) bool {
		units = append(units, u)
		return false
	})
	slices.SortFunc(units, func(a, b *unit) int { return cmp.Compare(a.off, b.off) })
	for _, u := range units {
		u = u.full()
		t := u.funcTableOf()
		i, _ := slices.BinarySearchFunc(t.ranges, pc, func(r funcRange, pc uint64) int {
			return cmp.Compare(r.lo, pc)
		})
		at := t.ranges[i:min(i+maxFolded, len(t.ranges))]
		found := Entry{off: u.end}
		for _, r := range at {
			if die := t.funcs[r.fn].die; r.lo == pc && die < found.off {
				// The address may be that of a part of a function that begins elsewhere.
				if err := e.Read(Ref{u, die}); err != nil {
					return err
				}
				if low, ok := e.entryPC(); ok && low == pc {
					found = *e
				}
			}
		}
		if found.u != nil {
			*e = found
			return nil
		}
	}
	return fmt.Errorf("no function begins at %#x", pc)
}

// NamedTypes calls found for the entries of types that have one of the names, in the order of the
// units, until it returns false. Types in functions, classes and namespaces are not among them, and
// neither are declarations.
func (d *Data) NamedTypes(names map[string]bool, found func(name string, e *Entry) bool) error {
	var e Entry
	for _, u := range d.units {
		u = u.full()
		if err := e.Read(Ref{u, u.die}); err != nil {
			return err
		}
		for in := e.Inside(); ; {
			ok, err := in.Next(&e, TagStructType, TagClassType, TagUnionType, TagEnumerationType, TagTypedef, TagBaseType)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			name := u.str(e.values[Name], u.d.info[:u.end])
			if names[string(name)] && !e.Has(Declaration) && !found(string(name), &e) {
				return nil
			}
		}
	}
	return nil
}

// entryPC returns the address at which a function is entered. That of a function in several
// parts is the start of the first of them, if no attribute has it (2.18).
func (e *Entry) entryPC() (pc uint64, ok bool) {
	u := e.u
	low, ok := u.addr(e.values[LowPC])
	if pc, isAddr := u.addr(e.values[EntryPC]); isAddr {
		return pc, true
	}
	if ok || !e.Has(Ranges) {
		return low, ok
	}
	u.rangeList(e.values[Ranges], func(lo, _ uint64) {
		if !ok {
			pc, ok = lo, true
		}
	})
	return pc, ok
}

// signature returns the position of the type with that signature.
func (d *Data) signature(sig uint64) Ref {
	if d.signatures == nil {
		d.indexTypes()
	}
	return d.signatures[sig]
}

// typeCost is the cost in bytes of a type unit in addition to its unit.
const typeCost = 96

// indexTypes reads the headers of the units of .debug_types (7.5.1.3 of DWARF 4).
func (d *Data) indexTypes() {
	d.signatures = map[uint64]Ref{}
	if d.file == nil {
		return
	}
	b, err := d.file.Relocated(d.file.DebugSection("types"))
	if err != nil {
		return
	}
	t := &Data{
		be: d.be, info: b, abbrev: d.abbrev, str: d.str, lineStr: d.lineStr, strOffsets: d.strOffsets,
		parent:       d,
		abbrevTables: map[abbrevKey]*abbrevTable{},
	}
	for c := (cursor{b: t.info, be: t.be}); c.off < len(t.info) && d.Spend(unitCost+typeCost) == nil; {
		u, ok := t.unitAt(&c)
		if !ok {
			return
		}
		if u == nil || u.version != 4 {
			continue
		}
		h := u.cursorAt(u.die)
		sig, at := h.u64(), h.uint(u.offSize)
		if u.die = uint64(h.off); h.bad {
			continue
		}
		t.units = append(t.units, u)
		d.signatures[sig] = Ref{u, u.off + at}
	}
}
