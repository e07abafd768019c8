package dwarf

import (
	"encoding/binary"
	"path"

	"github.com/borescope/borescope/internal/elffile"
)

// Opener opens the file of a split unit, by the path in the unit, which is relative to its
// compilation directory. It returns nil if there is none.
type Opener func(compDir, name string) *elffile.File

// Split adds the units with a description that was split off. pkg is the .dwp file next to the
// program, or nil. open opens .dwo files, and may be nil. The caller owns the files.
func (d *Data) Split(pkg *elffile.File, open Opener) {
	d.openDWO = open
	if pkg != nil {
		d.pkg = newPackage(pkg)
	}
}

// OpenSplit finds these files with find: PROGRAM.dwp, else .dwo files at the compiler's paths, else
// beside the program. opened gets each one, which the caller closes after the last use of d.
func (d *Data) OpenSplit(find *elffile.DebugFinder, opened func(*elffile.File)) {
	if find.Open == nil {
		return
	}
	open := func(name string) *elffile.File {
		f := find.Try(name)
		if f != nil {
			opened(f)
		}
		return f
	}
	var pkg *elffile.File
	if find.Path != "" {
		pkg = open(find.Path + ".dwp")
	}
	d.Split(pkg, func(dir, name string) *elffile.File {
		compiled := name
		if !path.IsAbs(name) {
			compiled = path.Join(dir, name)
		}
		f := open(compiled)
		if beside := path.Join(path.Dir(find.Path), path.Base(name)); f == nil && find.Path != "" && beside != compiled {
			f = open(beside) // the program was moved together with its parts
		}
		return f
	})
}

// full returns the unit that contains the entries: this one or, if it is a skeleton whose other part
// is found, that.
func (u *unit) full() *unit {
	if u.dwoName.form != 0 {
		if s := u.split(); s != nil {
			return s
		}
	}
	return u
}

// split returns the unit that contains the entries of a skeleton, nil if it is not found.
func (u *unit) split() *unit {
	if !u.splitTried {
		u.splitTried = true
		u.splitUnit = u.findSplit()
	}
	return u.splitUnit
}

func (u *unit) findSplit() *unit {
	if p := u.d.pkg; p != nil {
		if d := p.unit(u.dwoID); d != nil {
			if s := u.adopt(d); s != nil {
				return s
			}
		}
	}
	if u.d.openDWO == nil {
		return nil
	}
	f := u.d.openDWO(string(u.own(u.compDir)), string(u.own(u.dwoName)))
	if f == nil {
		return nil
	}
	d, err := newDWO(f)
	if err != nil {
		return nil
	}
	return u.adopt(d)
}

// newDWO reads the sections of a .dwo file.
func newDWO(f *elffile.File) (*Data, error) {
	d := &Data{be: f.Order == binary.BigEndian, abbrevTables: map[abbrevKey]*abbrevTable{}}
	sections := d.dwoSections()
	for i := range f.Sections {
		s := &f.Sections[i]
		to := sections[s.Name]
		if to == nil || *to != nil && to != &d.info {
			continue
		}
		// Types that were split off have sections of the same name, before that of the unit.
		if to == &d.info && d.hasUnit() {
			continue
		}
		b, err := f.Data(s)
		if err != nil {
			return nil, err
		}
		*to = b
	}
	return d, nil
}

// hasUnit reports whether .debug_info contains a unit that is not a type unit.
func (d *Data) hasUnit() bool {
	for c := (cursor{b: d.info, be: d.be}); ; {
		if u, ok := d.unitAt(&c); !ok || u != nil {
			return ok
		}
	}
}

func (d *Data) dwoSections() map[string]*[]byte {
	return map[string]*[]byte{
		".debug_info.dwo": &d.info, ".debug_abbrev.dwo": &d.abbrev, ".debug_str.dwo": &d.str,
		".debug_str_offsets.dwo": &d.strOffsets, ".debug_rnglists.dwo": &d.rnglists,
		".debug_loc.dwo": &d.loc, ".debug_loclists.dwo": &d.loclists,
	}
}

// adopt finds the unit with the skeleton's id in split-off sections, and sets what remains
// with the skeleton: addresses, lines and, before DWARF 5, ranges.
func (u *unit) adopt(d *Data) *unit {
	d.addr, d.rangesSec, d.parent = u.d.addr, u.d.rangesSec, u.d
	c := cursor{b: d.info, be: d.be}
	for c.off < len(d.info) {
		s, ok := d.unitAt(&c)
		if !ok {
			return nil
		}
		if s == nil {
			continue
		}
		s.lines, s.low, s.addrBase = u.lineTableOf(), u.low, u.addrBase
		s.gnuRanges = u.gnuRanges
		if s.version >= 5 {
			// behind the headers of the tables, of which there is one each
			s.strOffsets, s.rnglists = uint64(2*s.offSize), uint64(2*s.offSize+4)
			s.loclists = s.rnglists
		}
		s.ownRoot()
		if s.dwoID == u.dwoID {
			s.inDWO = true
			d.units = append(d.units, s)
			return s
		}
	}
	return nil
}

// ownRoot reads what a split unit's own entry has: the language, the compiler and, in GNU's split
// DWARF 4, the id.
func (u *unit) ownRoot() {
	c := u.cursorAt(u.die)
	a, attrs := u.rootAttrs(c.uleb())
	if a == nil {
		return
	}
	for _, s := range attrs {
		switch v := u.read(&c, s); s.name {
		case attrGNUDwoID:
			u.dwoID = v.n
		case attrLanguage:
			u.language = uint16(v.n)
		case attrProducer:
			u.producer = v
		}
	}
}

// dwoPackage is a .dwp file: the concatenated sections of many .dwo files, and an index
// (7.3.5; before DWARF 5 https://gcc.gnu.org/wiki/DebugFissionDWP).
type dwoPackage struct {
	f      *elffile.File
	c      cursor
	v5     bool
	ncol   uint64
	nunit  uint64
	nslot  uint64
	hashes int // offsets of the index's tables
	rows   int
	cols   int
}

// These are columns of the index: DW_SECT_…, which DWARF 5 renumbered from 5 on.
const (
	sectInfo       = 1
	sectAbbrev     = 3
	sectLocs       = 5 // of .debug_loclists, before DWARF 5 of .debug_loc
	sectStrOffsets = 6
	sectRnglistsV5 = 8
)

func newPackage(f *elffile.File) *dwoPackage {
	b, err := f.Data(f.Section(".debug_cu_index"))
	if err != nil || len(b) < 16 {
		return nil
	}
	p := &dwoPackage{f: f, c: cursor{b: b, be: f.Order == binary.BigEndian}}
	p.v5 = p.c.u16() == 5
	p.c.off = 4
	p.ncol, p.nunit, p.nslot = uint64(p.c.u32()), uint64(p.c.u32()), uint64(p.c.u32())
	limit := uint64(len(b))
	if p.ncol == 0 || p.ncol > 16 || p.nslot > limit/12 || p.nunit > limit/(8*p.ncol) ||
		p.nslot&(p.nslot-1) != 0 || p.nslot == 0 {
		return nil
	}
	p.hashes = 16
	p.rows = p.hashes + int(8*p.nslot)
	p.cols = p.rows + int(4*p.nslot)
	if uint64(p.cols)+4*p.ncol+8*p.nunit*p.ncol > limit {
		return nil
	}
	return p
}

func (p *dwoPackage) at(off int) *cursor {
	c := p.c
	c.off = off
	return &c
}

// unit returns the sections of the unit with that id, nil if there is none.
func (p *dwoPackage) unit(id uint64) *Data {
	mask := p.nslot - 1
	slot, step := id&mask, id>>32&mask|1
	for range p.nslot {
		got := p.at(p.hashes + int(8*slot)).u64()
		row := uint64(p.at(p.rows + int(4*slot)).u32())
		if row == 0 {
			return nil
		}
		if got == id {
			return p.data(row)
		}
		slot = (slot + step) & mask
	}
	return nil
}

// data returns the parts of the sections that belong to a row of the index, counted from 1.
func (p *dwoPackage) data(row uint64) *Data {
	if row > p.nunit {
		return nil
	}
	d, err := newDWO(p.f)
	if err != nil {
		return nil
	}
	for i := range p.ncol {
		col := p.at(p.cols + int(4*i)).u32()
		var to *[]byte
		switch {
		case col == sectInfo:
			to = &d.info
		case col == sectAbbrev:
			to = &d.abbrev
		case col == sectStrOffsets:
			to = &d.strOffsets
		case col == sectLocs && p.v5:
			to = &d.loclists
		case col == sectLocs:
			to = &d.loc
		case col == sectRnglistsV5 && p.v5:
			to = &d.rnglists
		default:
			continue
		}
		entry := p.cols + int(4*p.ncol) + int(4*((row-1)*p.ncol+i))
		off := uint64(p.at(entry).u32())
		size := uint64(p.at(entry + int(4*p.nunit*p.ncol)).u32())
		if off > uint64(len(*to)) || size > uint64(len(*to))-off {
			return nil
		}
		*to = (*to)[off : off+size]
	}
	return d
}
