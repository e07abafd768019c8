package dwarf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"unsafe"

	"github.com/borescope/borescope/internal/elffile"
)

// Data is the DWARF of one file. Its methods read mapped bytes: the caller must catch faults
// with elffile.Catch. Only one goroutine may use it at a time.
type Data struct {
	be                               bool
	info, abbrev, line, str, lineStr []byte
	rangesSec, rnglists, addr        []byte
	loc, loclists                    []byte
	strOffsets                       []byte
	alt                              *Data // the file to which dwz moved common parts; may be nil

	pkg     *dwoPackage // may be nil
	openDWO Opener      // may be nil
	parent  *Data       // the DWARF with the skeletons of these split sections; nil otherwise

	units        []*unit
	ranges       []unitRange
	reach        []uint64
	abbrevTables map[abbrevKey]*abbrevTable
	attrBuf      []attrSpec // for parseAbbrevs and rootAttrs
	abbrevBuf    []abbrev   // for parseAbbrevs
	lastRoot     struct {   // the last result of rootAttrs
		key   abbrevKey
		code  uint64
		a     abbrev
		attrs []attrSpec
	}
	sizesOf    abbrevKey         // the key for which sizes was computed
	sizes      [256]int8         // for formSizes
	rowBuf     []row             // for lineTableOf
	paths      []string          // of files: fileEntry.path
	names      map[uint64]string // of entries, by their offset
	steps      lineSteps
	abbrevUsed int            // count of entries and attributes read
	lineRead   int            // count of bytes of line programs read
	rangesRead int            // count of entries of range lists read
	locsRead   int            // count of bytes of location lists and expressions read
	file       *elffile.File  // for types that have their own section; may be nil
	signatures map[uint64]Ref // of types with their own section; nil: not indexed yet
	missing    error          // the first reason why something was left out
	entries    int            // count of entries that Entry's methods have read
	bytes      int64
	most       int64 // limit of bytes; 0 means none
}

// ErrNone is the error for a file without DWARF.
var ErrNone = errors.New("no DWARF")

// ErrMalformed is the reason why a unit, or its line program, was left out.
var ErrMalformed = errors.New("malformed DWARF")

// New reads the DWARF of a file. alt is the DWARF of the file in its .gnu_debugaltlink, or
// nil. New only indexes the units.
//
// Decoded data occupies up to most bytes, in addition to the sections; so does the memory
// allocated to decode a unit. 0 means eight times the file's storage, but at least 64 MiB.
// Data that does not fit is left out.
func New(f *elffile.File, alt *Data, most int64) (*Data, error) {
	d := &Data{
		file: f, be: f.Order == binary.BigEndian, alt: alt,
		abbrevTables: map[abbrevKey]*abbrevTable{},
	}
	d.most = cmp.Or(most, max(64<<20, 8*f.Stored()))
	for _, s := range []struct {
		name string
		to   *[]byte
	}{
		{"info", &d.info},
		{"abbrev", &d.abbrev},
		{"line", &d.line},
		{"str", &d.str},
		{"line_str", &d.lineStr},
		{"ranges", &d.rangesSec},
		{"rnglists", &d.rnglists},
		{"loc", &d.loc},
		{"loclists", &d.loclists},
		{"addr", &d.addr},
		{"str_offsets", &d.strOffsets},
	} {
		b, err := f.Relocated(f.DebugSection(s.name))
		if errors.Is(err, elffile.ErrTooLarge) && s.to != &d.info && s.to != &d.abbrev {
			d.lack(err)
			err = nil // what it would give is missing, and no more
		}
		if err != nil {
			return nil, err
		}
		*s.to = b
	}
	if len(d.info) == 0 || len(d.abbrev) == 0 {
		return nil, ErrNone
	}
	d.index()
	return d, nil
}

// Bytes returns the memory of the data decoded so far, without the sections.
func (d *Data) Bytes() int64 { return d.bytes }

func (d *Data) grew(n int64) { d.outer().bytes += n }

// Missing returns why positions of code that has some may be missing, from what has been read
// so far: elffile.ErrTooLarge for a section, or decoded data, over its limit; ErrMalformed. It
// is nil if nothing was left out.
func (d *Data) Missing() error { return d.outer().missing }

func (d *Data) lack(err error) {
	if d = d.outer(); d.missing == nil {
		d.missing = err
	}
}

// lackRoom is lack for data that does not fit if what is left of its room is negative.
func (d *Data) lackRoom(room int64) {
	if room < 0 {
		d.lack(elffile.ErrTooLarge)
	}
}

// left returns how many more bytes may be decoded.
func (d *Data) left() int64 {
	if d = d.outer(); d.most == 0 {
		return math.MaxInt32
	}
	return max(d.most-d.bytes, 0)
}

// push appends to a table and subtracts the bytes for it from room, including those that
// growing the table leaves behind. If room does not suffice, it becomes negative and the table
// is unchanged.
func push[T any](s []T, v T, room *int64) []T {
	size, n := int64(unsafe.Sizeof(v)), len(s)
	full := n == cap(s)
	if *room -= size; full {
		*room -= int64(n) * size
	}
	if *room < 0 {
		return s
	}
	if full {
		most := n + 1 + int(min(*room/size, math.MaxInt32/2))
		s = append(make([]T, 0, min(max(2*n, 16), most)), s...)
	}
	return append(s, v)
}

// size returns the memory of a table.
func size[T any](s []T) int64 {
	var v T
	return int64(cap(s)) * int64(unsafe.Sizeof(v))
}

// clip frees the unused capacity of a complete table, if that is worth a copy.
func clip[T any](s []T) []T {
	if cap(s)-len(s) > len(s)/4 {
		return slices.Clone(s)
	}
	return s
}

// Call is a function at an address: one that was inlined there, or the function that contains
// the code.
type Call struct {
	// Name is the linkage name if there is one, else the plain name. It is empty if no
	// described function contains the address.
	Name string
	// File, Line and Column are the position of the address, or of the inlined call at it, in
	// this function's source. Line is 0 if it is not known.
	File   string
	Line   int
	Column int
	// Entry and End are the bounds of the part of the function that contains the address. They
	// are set in the last call of a chain, if a function is described.
	Entry, End uint64
}

// Calls appends the chain of calls at an address, innermost first; the last is the function
// itself. It appends nothing if no unit describes the address.
func (d *Data) Calls(dst []Call, pc uint64) []Call {
	d.find(pc, func(u *unit) bool {
		n := len(dst)
		dst = u.calls(dst, pc)
		return len(dst) > n
	})
	return dst
}

func (u *unit) calls(dst []Call, pc uint64) []Call {
	var here Call
	r, haveLine := u.lineTableOf().lookup(pc)
	if haveLine {
		here.File, here.Line, here.Column = u.path(uint64(r.file)), int(r.line), int(r.col)
	}
	u = u.full()
	t := u.funcTableOf()
	fn := t.lookup(pc)
	if fn == nil {
		if haveLine {
			dst = append(dst, here) // assembly has lines, but no functions
		}
		return dst
	}
	f := &t.funcs[fn.fn]
	n := len(dst)
	for depth := int32(0); depth < maxDepth; depth++ {
		call := t.callAt(f, depth, pc)
		if call < 0 {
			break
		}
		// outermost first, reversed below
		dst = append(dst, Call{Name: u.name(t.calls[call].origin), Line: int(call)})
	}
	// A call's position is in the function that contains the call.
	chain := dst[n:]
	for i, k := 0, len(chain)-1; i < k; i, k = i+1, k-1 {
		chain[i], chain[k] = chain[k], chain[i]
	}
	for i := range chain {
		call := &t.calls[chain[i].Line]
		chain[i].File, chain[i].Line, chain[i].Column = here.File, here.Line, here.Column
		here = Call{File: u.path(uint64(call.file)), Line: int(call.line), Column: int(call.col)}
	}
	here.Name, here.Entry, here.End = u.name(f.die), fn.lo, fn.hi
	return append(dst, here)
}

// name returns the name of an entry and caches it, because functions are often inlined many
// times.
func (u *unit) name(off uint64) string {
	s, ok := u.d.names[off]
	if !ok {
		s = u.d.nameOf(u, off)
		if u.d.names == nil {
			u.d.names = map[uint64]string{}
		}
		if n := int64(64 + len(s)); n <= u.d.left() {
			u.d.names[off] = s
			u.d.grew(n)
		}
	}
	return s
}

// nameOf returns the name of an entry. It follows references to the entry's abstract instance
// or declaration, which may form a cycle in a malformed file.
func (d *Data) nameOf(u *unit, off uint64) string {
	var plain []byte
	for range 16 {
		if off&altRef != 0 {
			if d = d.alt; d == nil {
				break
			}
			off &^= altRef
			u = nil
		}
		if u == nil || off < u.die || off >= u.end {
			if u = d.unitOf(off); u == nil {
				break
			}
		}
		linkage, name, next := u.namesAt(off)
		if len(linkage) > 0 {
			return string(linkage)
		}
		if plain == nil {
			plain = name
		}
		if next == 0 {
			break
		}
		off = next
	}
	return string(plain)
}

// namesAt reads an entry's names and the offset of the entry that it refers to.
func (u *unit) namesAt(off uint64) (linkage, name []byte, next uint64) {
	c := u.cursorAt(off)
	a := u.abbrevs().get(c.uleb())
	if a == nil || c.bad {
		return nil, nil, 0
	}
	for _, s := range u.attrsOf(a) {
		v := u.read(&c, s)
		switch s.name {
		case attrLinkageName, attrMIPSLinkage:
			linkage = u.str(v, c.b)
		case attrName:
			name = u.str(v, c.b)
		case attrAbstractOrigin, attrSpecification:
			next, _ = u.ref(v)
			if u.isAlt(v) {
				next |= altRef
			}
		}
	}
	return linkage, name, next
}
