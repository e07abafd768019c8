// Package ksyms contains the kernel's symbols, as /proc/kallsyms lists them, in a table by
// address: all of them, or only those that name a set of addresses.
package ksyms

import (
	"bytes"
	"cmp"
	"io"
	"iter"
	"slices"

	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/symbol/internal/index"
)

// Table is a parsed kallsyms. For each symbol it has 4 bytes of address (and 2 of index), its
// type, its module's number, and its name in an arena. Names are found by the offset of every
// 16th name and the lengths in between.
type Table struct {
	index.Addrs
	typ     []byte   // nm's letter, perhaps with isMarker
	modRuns []modRun // modules, each of the symbols from .first on
	mods    []string // [0] is "[kernel]"
	arena   []byte   // names: length byte, bytes; 255 continues with the next byte
	skip    []uint32 // arena offset of every 16th name
	Names   []string // names that callers looked up, in a table of few symbols; else nil
	Hidden  bool     // every address is 0: kptr_restrict
}

type modRun struct {
	first uint32
	mod   uint16
}

const nameSkip = 16

// parser builds a Table from a stream.
type parser struct {
	syms   []kallsym
	arena  []byte
	mods   []string
	names  []byte    // for put
	group  []kallsym // for orderAliases
	last   []byte    // name of the last module
	lastID uint16
}

// kallsym is a symbol before it is in the table.
type kallsym struct {
	value uint64
	off   uint32 // of its name in arena
	mod   uint16
	typ   uint8
}

// Parse reads the symbols of code from a stream, and those of data too if all is set.
func Parse(r io.Reader, all bool) (*Table, error) {
	p := &parser{
		mods: []string{"[kernel]"},
		// sized for a usual kernel, to save copies
		syms: make([]kallsym, 0, 1<<17), arena: make([]byte, 0, 24<<17),
	}
	lines := kallsyms.NewLines(r)
	hidden := true
	for lines.Next() {
		hidden = hidden && lines.Address == 0
		if !all && !IsCode(lines.Type) {
			continue
		}
		p.add(lines.Address, lines.Type, lines.Name(), lines.Module())
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if hidden && lines.Line() > 0 {
		return &Table{mods: p.mods, Hidden: true}, nil
	}
	return p.table(), nil
}

// isMarker is set in the types of symbols that end a section.
const isMarker = 0x80

func (p *parser) add(at uint64, typ byte, name, mod []byte) {
	id := uint16(0)
	if len(mod) > 0 {
		id = p.module(mod)
	}
	typ &^= isMarker
	if marker(name) {
		typ |= isMarker
	}
	p.syms = append(p.syms, kallsym{at, uint32(len(p.arena)), id, typ})
	p.arena = appendName(p.arena, name)
}

// module returns the number of a module, whose name in the table is "[name]".
func (p *parser) module(mod []byte) uint16 {
	if bytes.Equal(mod, p.last) {
		return p.lastID
	}
	p.last = append(p.last[:0], mod...)
	for i := len(p.mods) - 1; i > 0; i-- {
		if m := p.mods[i]; m[1:len(m)-1] == string(mod) {
			p.lastID = uint16(i)
			return p.lastID
		}
	}
	if len(p.mods) > 0xffff {
		p.lastID = 0
		return 0
	}
	p.mods = append(p.mods, "["+string(mod)+"]")
	p.lastID = uint16(len(p.mods) - 1)
	return p.lastID
}

// IsCode reports whether a symbol type, as in nm(1), is one of code: text, also weak.
func IsCode(t byte) bool { return t == 't' || t == 'T' || t == 'w' || t == 'W' }

func appendName(b, name []byte) []byte {
	n := len(name)
	for n >= 255 {
		b = append(b, 255)
		n -= 255
	}
	return append(append(b, byte(n)), name...)
}

// nameAt returns the name at an offset of the arena, and the next one's offset.
func nameAt(arena []byte, off int) (name []byte, next int) {
	n := 0
	for arena[off] == 255 {
		n += 255
		off++
	}
	n += int(arena[off])
	off++
	return arena[off : off+n], off + n
}

// table returns the table of the symbols that were read.
func (p *parser) table() *Table {
	t := &Table{mods: p.mods}
	p.sort()
	t.typ, t.arena = make([]byte, len(p.syms)), p.arena
	if cap(t.arena)-len(t.arena) > len(t.arena)/4 { // a copy needs both for a moment
		t.arena = append(make([]byte, 0, len(p.arena)), p.arena...)
	}
	values := make([]uint64, len(p.syms))
	last := -1
	for i := range p.syms {
		s := &p.syms[i]
		values[i], t.typ[i] = s.value, s.typ
		if i%nameSkip == 0 {
			t.skip = append(t.skip, s.off)
		}
		if m := int(s.mod); m != last {
			t.modRuns = append(t.modRuns, modRun{uint32(i), s.mod})
			last = m
		}
	}
	t.Addrs = index.NewAddrs(values)
	return t
}

// sort puts the symbols, and their names, in the order of addresses, the best alias of an
// address last. The kernel's own come in that order already; the symbols of modules, BPF
// programs and trampolines behind them do not.
func (p *parser) sort() {
	n := 1
	for n < len(p.syms) && p.syms[n].value >= p.syms[n-1].value {
		n++
	}
	if n = min(n, len(p.syms)); n == len(p.syms) {
		p.orderAliases(n)
		return
	}
	rest := slices.Clone(p.syms[n:])
	least := slices.MinFunc(rest, func(a, b kallsym) int {
		return cmp.Compare(a.value, b.value)
	}).value
	from, _ := slices.BinarySearchFunc(p.syms[:n], least, func(s kallsym, v uint64) int {
		return cmp.Compare(s.value, v)
	})
	p.orderAliases(from)
	all := append(slices.Clone(p.syms[from:n]), rest...)
	slices.SortFunc(all, func(a, b kallsym) int {
		if c := cmp.Compare(a.value, b.value); c != 0 {
			return c
		}
		return p.compare(&a, &b)
	})
	p.put(from, all)
}

// put replaces the symbols from number first on by syms, which are the same ones in another
// order, and puts their names in that order, too.
func (p *parser) put(first int, syms []kallsym) {
	lo, hi := syms[0].off, 0
	for i := range syms {
		_, end := nameAt(p.arena, int(syms[i].off))
		lo, hi = min(lo, syms[i].off), max(hi, end)
	}
	p.names = append(p.names[:0], p.arena[lo:hi]...)
	arena := p.arena[:lo]
	for i, s := range syms {
		name, _ := nameAt(p.names, int(s.off-lo))
		s.off = uint32(len(arena))
		arena = appendName(arena, name)
		p.syms[first+i] = s
	}
}

// orderAliases puts those of the first n symbols that share an address in the order of
// preference, the best last. The addresses are in ascending order already. Names take the same
// bytes of the arena in any order.
func (p *parser) orderAliases(n int) {
	for i := 0; i < n; {
		first := i
		sorted := true
		for i++; i < n && p.syms[i].value == p.syms[first].value; i++ {
			sorted = sorted && p.compare(&p.syms[i-1], &p.syms[i]) <= 0
		}
		if sorted {
			continue
		}
		p.group = append(p.group[:0], p.syms[first:i]...)
		slices.SortFunc(p.group, func(a, b kallsym) int { return p.compare(&a, &b) })
		p.put(first, p.group)
	}
}

// compare orders two symbols of one address, the better name last.
func (p *parser) compare(a, b *kallsym) int {
	if c := cmp.Compare(typeRank(a.typ), typeRank(b.typ)); c != 0 {
		return c
	}
	an, _ := nameAt(p.arena, int(a.off))
	bn, _ := nameAt(p.arena, int(b.off))
	if c := index.CompareNames(bn, an); c != 0 {
		return c
	}
	return cmp.Compare(a.mod, b.mod)
}

// typeRank ranks code above data, and global above weak above local symbols.
func typeRank(t byte) int {
	switch t {
	case 'T':
		return 5
	case 'W', 'w':
		return 4
	case 't':
		return 3
	case 'D', 'B', 'R':
		return 2
	}
	return 1
}

// Name returns the name of symbol i, as bytes of the arena.
func (t *Table) Name(i int) []byte {
	off := int(t.skip[i/nameSkip])
	var name []byte
	for range i%nameSkip + 1 {
		name, off = nameAt(t.arena, off)
	}
	return name
}

// Module returns the module of symbol i.
func (t *Table) Module(i int) string {
	lo, hi := 0, len(t.modRuns)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if int(t.modRuns[m].first) <= i {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return t.mods[t.modRuns[lo-1].mod]
}

// Bytes returns the memory that the table takes, in bytes, without Names.
func (t *Table) Bytes() int64 {
	n := t.Addrs.Bytes() + int64(cap(t.typ)+cap(t.arena)+4*cap(t.skip)+8*cap(t.modRuns))
	for _, m := range t.mods {
		n += int64(16 + len(m))
	}
	return n
}

// Next returns the first symbol after i that has another address.
func (t *Table) Next(i int) int {
	at := t.At(i)
	for i++; i < len(t.typ) && t.At(i) == at; i++ {
	}
	return i
}

// marker reports whether a symbol marks the end of a section of the kernel
// (include/asm-generic/sections.h): nothing behind it is the section's code.
func marker(name []byte) bool {
	if len(name) < 4 || name[0] != '_' {
		return false
	}
	switch string(name) {
	case "_etext", "_einittext", "__end_rodata", "_end":
		return true
	}
	return name[1] == '_' && bytes.HasSuffix(name, []byte("_text_end"))
}

// Len returns the number of symbols.
func (t *Table) Len() int { return len(t.typ) }

// Type returns nm's letter of symbol i.
func (t *Table) Type(i int) byte { return t.typ[i] &^ isMarker }

// EndsSection reports whether symbol i marks the end of a section: nothing from its address on
// is the section's code.
func (t *Table) EndsSection(i int) bool { return t.typ[i]&isMarker != 0 }

// All yields the symbols' numbers and names, in the order of addresses. A name is valid during
// its iteration.
func (t *Table) All() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		off := 0
		for i := range t.typ {
			var name []byte
			if name, off = nameAt(t.arena, off); !yield(i, name) {
				return
			}
		}
	}
}
