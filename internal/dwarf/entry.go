package dwarf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/borescope/borescope/internal/elffile"
)

// Entry is an entry, for those who read types: its tag and what it says of a few
// attributes. It holds no memory of its own, and is used where it was read.
type Entry struct {
	Tag      uint32
	Children bool // some may follow
	u        *unit
	off      uint64
	end      uint64 // of its attributes
	values   [numAttrs]value
}

// Attr is an attribute that entries are read for.
type Attr uint8

// The attributes; what is not said is in 7.5.4.
const (
	Name Attr = 1 + iota
	Type
	ByteSize
	BitSize
	BitOffset     // before DWARF 4: from the high end of the storage
	DataBitOffset // from the structure's start
	Location      // of a member
	Encoding
	Count
	UpperBound
	ConstValue
	Declaration
	VariableParameter // of Go: it is a result
	LowPC
	Origin
	Specification
	Sibling
	numAttrs
)

// attrs are the attributes by their numbers, all of which are small; 0 are others.
var attrs = [128]Attr{
	attrName: Name, 0x49: Type, 0x0b: ByteSize, 0x0d: BitSize, 0x0c: BitOffset, 0x6b: DataBitOffset,
	0x38: Location, 0x3e: Encoding, 0x37: Count, 0x2f: UpperBound, 0x1c: ConstValue, 0x3c: Declaration,
	0x4b: VariableParameter, attrLowPC: LowPC, attrAbstractOrigin: Origin,
	attrSpecification: Specification,
	attrSibling:       Sibling,
}

// Ref says where an entry is.
type Ref struct {
	u   *unit
	off uint64
}

// errEntry says that what should be an entry is none.
var errEntry = errors.New("malformed DWARF entry")

// How many entries are read of one file, whatever asks for them: some, and more of large
// files. Those of a function's types are read again for each function that has them.
const (
	leastEntries = 4 << 20
	entryBytes   = 8
)

// count counts an entry that is read.
func (u *unit) count() error {
	d := u.d.outer()
	if d.entries++; d.entries > leastEntries+len(d.info)/entryBytes {
		return fmt.Errorf("DWARF entries: %w", elffile.ErrTooLarge)
	}
	return nil
}

// outer is the DWARF that d is, or is a part of.
func (d *Data) outer() *Data {
	if d.parent != nil {
		return d.parent
	}
	return d
}

// Spend takes n bytes, for what the caller makes of what it reads, out of those that may
// be decoded; they aren't given back.
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
		return nil // the end of those in another
	}
	if a == nil {
		return errEntry
	}
	e.Tag, e.Children = a.tag, a.children
	for _, s := range t.attrs[a.first : a.first+uint32(a.n)] {
		v := r.u.read(&c, s)
		if int(s.name) < len(attrs) {
			if at := &e.values[attrs[s.name]]; at.form == 0 {
				*at = v
			}
		}
	}
	e.end = uint64(c.off)
	if c.bad {
		return errEntry
	}
	return nil
}

// whole returns the unit's table with all attributes, parsed when it is first asked for.
func (u *unit) whole() *abbrevTable {
	if u.wholeAbbrev == nil {
		key := u.abbrevKey()
		key.whole = true
		u.wholeAbbrev = u.d.abbrevTable(u, key)
	}
	return u.wholeAbbrev
}

// Ref is the place of the entry.
func (e *Entry) Ref() Ref { return Ref{e.u, e.off} }

// Has reports whether the entry has an attribute.
func (e *Entry) Has(a Attr) bool { return e.values[a].form != 0 }

// Text returns an attribute that is a string, empty if there is none.
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

// Link returns what an attribute refers to. What lies in the file that dwz moved common
// parts to is not followed: there is no such link.
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

// Owner returns the entry that has an attribute: this one, or the declaration or the
// abstract instance that it refers to; one without attributes if none has.
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

// Inside iterates over the entries directly inside of one.
type Inside struct {
	u   *unit
	off uint64 // of the next; 0: there is none
}

// Inside returns those in e.
func (e *Entry) Inside() Inside {
	if !e.Children {
		return Inside{}
	}
	return Inside{e.u, e.end}
}

// Next reads the next one that has one of these tags; it is false at the end.
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

// behind returns the offset behind an entry and all that is in it.
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

// FunctionAt reads the entry of the function that begins at an address. Of several that
// are folded into one it is the first.
func (d *Data) FunctionAt(pc uint64, e *Entry) error {
	var units []*unit
	d.find(pc, func(u *unit) bool {
		units = append(units, u)
		return false
	})
	slices.SortFunc(units, func(a, b *unit) int { return cmp.Compare(a.off, b.off) })
	for _, u := range units {
		t := u.funcTableOf()
		i, _ := slices.BinarySearchFunc(t.ranges, pc, func(r funcRange, pc uint64) int {
			return cmp.Compare(r.lo, pc)
		})
		at := t.ranges[i:min(i+maxFolded, len(t.ranges))]
		found := Entry{off: u.end}
		for _, r := range at {
			if die := t.funcs[r.fn].die; r.lo == pc && die < found.off {
				// A part of a function that lies elsewhere is not its beginning.
				if err := e.Read(Ref{u, die}); err != nil {
					return err
				}
				if low, ok := u.addr(e.values[LowPC]); ok && low == pc {
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

// signature returns where the type with that signature is.
func (d *Data) signature(sig uint64) Ref {
	if d.signatures == nil {
		d.indexTypes()
	}
	return d.signatures[sig]
}

// typeCost is what a unit of a type takes besides its unit.
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
