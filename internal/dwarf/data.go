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

// Data is the DWARF of one file. Its methods read mapped bytes: the caller
// catches faults as elffile says. One goroutine at a time.
type Data struct {
	be                               bool
	info, abbrev, line, str, lineStr []byte
	rangesSec, rnglists, addr        []byte
	strOffsets                       []byte
	alt                              *Data // the file that dwz moved common parts to; may be nil

	pkg     *dwoPackage // may be nil
	openDWO Opener      // may be nil
	parent  *Data       // whose skeletons these split sections belong to; nil otherwise

	units        []*unit
	ranges       []unitRange
	reach        []uint64
	abbrevTables map[abbrevKey]*abbrevTable
	attrBuf      []attrSpec // for parseAbbrevs and rootAttrs
	abbrevBuf    []abbrev   // for parseAbbrevs
	lastRoot     struct {   // what rootAttrs returned last
		key   abbrevKey
		code  uint64
		a     abbrev
		attrs []attrSpec
	}
	sizesOf    abbrevKey         // what sizes was made for
	sizes      [256]int8         // for formSizes
	rowBuf     []row             // for lineTableOf
	paths      []string          // of files: fileEntry.path
	names      map[uint64]string // of entries, by their offset
	steps      lineSteps
	abbrevUsed int            // entries and attributes that were read
	lineRead   int            // bytes of line programs that were read
	rangesRead int            // entries of range lists that were read
	file       *elffile.File  // for the types that have a section of their own; may be nil
	signatures map[uint64]Ref // of these; nil: not indexed yet
	entries    int            // that Entry.Read and what uses it has read
	bytes      int64
	most       int64 // bounds bytes; 0: nothing does
}

// ErrNone says that a file has no DWARF.
var ErrNone = errors.New("no DWARF")

// New reads the DWARF of a file; alt is that of the file in its
// .gnu_debugaltlink, or nil. Units are indexed, nothing else is decoded yet.
//
// What is decoded takes up to most bytes, besides the sections, and so does all that is
// allocated to decode a unit; 0 stands for eight times the file's storage, or 64 MiB. Of
// what does not fit nothing is known.
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
		{"addr", &d.addr},
		{"str_offsets", &d.strOffsets},
	} {
		b, err := f.Relocated(f.DebugSection(s.name))
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

// Bytes is the memory that was decoded so far, without the sections.
func (d *Data) Bytes() int64 { return d.bytes }

func (d *Data) grew(n int64) { d.outer().bytes += n }

// left is how many bytes more may be decoded.
func (d *Data) left() int64 {
	if d = d.outer(); d.most == 0 {
		return math.MaxInt32
	}
	return max(d.most-d.bytes, 0)
}

// push appends to a table and takes the bytes for it out of room, and those that growing
// leaves behind. Where there are none, room is below 0 and the table as it was.
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

// size is the memory that a table takes.
func size[T any](s []T) int64 {
	var v T
	return int64(cap(s)) * int64(unsafe.Sizeof(v))
}

// clip gives back what a table that is complete does not need, where that is worth a
// copy of it.
func clip[T any](s []T) []T {
	if cap(s)-len(s) > len(s)/4 {
		return slices.Clone(s)
	}
	return s
}

// Call is a function at an address: one that was inlined there, or the one that
// the code belongs to.
type Call struct {
	// Name is the linkage name if there is one, else the plain one; empty if the
	// address is in no function that is described.
	Name string
	// File, Line and Column are where the address, or the inlined call in it, is
	// in this function's source; Line is 0 if not known.
	File   string
	Line   int
	Column int
	// Entry and End bound the part of the function that the address lies in; they
	// are set in the last call of a chain, if a function is described.
	Entry, End uint64
}

// Calls appends the chain of calls at an address, innermost first; the last is
// the function itself. It appends nothing if no unit describes the address.
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
	if u.dwoName.form != 0 {
		if s := u.split(); s != nil {
			u = s
		}
	}
	t := u.funcTableOf()
	fn := t.lookup(pc)
	if fn == nil {
		if haveLine {
			dst = append(dst, here) // assembly: lines and no functions
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
		// outermost first, for now
		dst = append(dst, Call{Name: u.name(t.calls[call].origin), Line: int(call)})
	}
	// Each call's position is in the function around it.
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

// name returns the name of an entry, remembered: what is inlined is so often.
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

// nameOf returns the name of an entry, following what it is an instance or a
// definition of. References may form a cycle in a malformed file.
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

// namesAt reads an entry's names and what it refers to.
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
