package symbol

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/symbol/internal/index"
)

// symTable is the sorted table of a file's code or data symbols: for each 12 bytes
// of address, size and name, 2 of index and 1 of kind. Names stay in the file's
// string tables.
type symTable struct {
	index.AddrIndex
	syms []sym
	kind []uint8 // symFunc … and hasOuter
	// outer is, for every symbol marked hasOuter, the nearest earlier symbol that reaches
	// beyond its end. Few symbols have one.
	outer []outerSym
}

// sym is a symbol's extent and name: a lookup needs all of it, and it fits in one cache
// line.
type sym struct {
	lo   uint32 // address - base of its range
	size uint32 // saturates at 4 GiB - 1
	name uint32 // offset in .strtab, or in .dynstr with fromDyn set
}

type outerSym struct{ sym, outer uint32 }

// The kinds of symbols. The higher one is preferred among aliases.
const (
	symNone uint8 = iota
	symNoType
	symObject
	symPLT
	symIFunc
	symFunc
	symMask  = 7
	hasOuter = 1 << 7
)

// fromDyn marks a name in .dynstr.
const fromDyn = 1 << 31

// noSym is the index for no symbol.
const noSym = -1

// lookup returns the index of the innermost symbol whose bounds contain v; sized is false if
// that symbol states no size. Symbols without a size end at the next symbol; the caller must
// check that they also end at their section.
func (t *symTable) lookup(v uint64) (i int, sized bool) {
	i = t.find(v)
	if i < 0 {
		return noSym, false
	}
	if t.syms[i].size == 0 {
		return i, false
	}
	// A chain of enclosing symbols is as long as the nesting is deep.
	for depth := 0; v-t.at(i) >= uint64(t.syms[i].size); depth++ {
		if t.kind[i]&hasOuter == 0 || depth == maxNesting {
			return noSym, false
		}
		k, _ := slices.BinarySearchFunc(t.outer, uint32(i), func(o outerSym, i uint32) int {
			return cmp.Compare(o.sym, i)
		})
		i = int(t.outer[k].outer)
	}
	return i, true
}

// maxNesting is the number of enclosing symbols that a lookup tries. Real symbols are nested a
// few levels deep.
const maxNesting = 1 << 10

// find returns the index of the last symbol that does not begin above v, noSym if there is
// none.
func (t *symTable) find(v uint64) int {
	s := t.Seg(v)
	if s == nil {
		return noSym
	}
	off := v - s.Base
	i, j := s.Bucket(off)
	for j-i > 8 {
		m := int(uint(i+j) >> 1)
		if uint64(t.syms[m].lo) <= off {
			i = m + 1
		} else {
			j = m
		}
	}
	// Counts 4 at a time: then the end of the bucket is not needed, and there is no branch for
	// each entry, which the processor could not predict.
	for i+4 <= s.End {
		four := t.syms[i : i+4 : i+4]
		n := notAbove(four[0].lo, off) + notAbove(four[1].lo, off) + notAbove(four[2].lo, off) +
			notAbove(four[3].lo, off)
		if i += n; n < 4 {
			return i - 1
		}
	}
	for i < s.End && uint64(t.syms[i].lo) <= off {
		i++
	}
	// The first symbol of the range is at its base, which is not above v.
	return i - 1
}

// notAbove returns 1 if lo is not above off, else 0.
func notAbove(lo uint32, off uint64) int { return int((uint64(lo) - off - 1) >> 63) }

// at returns the address of symbol i.
func (t *symTable) at(i int) uint64 { return t.Base(i) + uint64(t.syms[i].lo) }

func (t *symTable) bytes() int64 {
	if t == nil {
		return 0
	}
	return t.AddrIndex.Bytes() + int64(12*cap(t.syms)+cap(t.kind)+8*cap(t.outer))
}

// rawSym is a symbol before it is in the table.
type rawSym struct {
	value uint64
	size  uint32
	name  uint32
	kind  uint8
	bind  uint8 // rank: global 2, weak 1, local 0
}

// bindRank is rawSym.bind by STB_…; 10 is STB_GNU_UNIQUE.
var bindRank = [16]uint8{elf.STB_GLOBAL: 2, elf.STB_WEAK: 1, 10: 2}

// symReader reads symbol tables of one file into raw symbols. All its methods
// read mapped memory: the caller catches faults.
type symReader struct {
	f    *elffile.File
	data bool   // read data symbols, else code
	exec []bool // by section index: contains code
	strs [2][]byte
	out  []rawSym
	most int // symbols that may be in out
	// names is the number of bytes of names that may still be compared to choose among aliases:
	// many aliases with one long name must not multiply the work.
	names int
}

// errManySymbols is the error for a table that would exceed its bound.
var errManySymbols = fmt.Errorf("symbol table: %w", elffile.ErrTooLarge)

// file makes read read from f.
func (r *symReader) file(f *elffile.File) {
	if r.f == f {
		return
	}
	r.f, r.exec = f, make([]bool, len(f.Sections))
	for i := range f.Sections {
		r.exec[i] = f.Sections[i].Flags&elf.SHF_EXECINSTR != 0
	}
}

// strTab returns the string table that belongs to a symbol table.
func strTab(f *elffile.File, tab *elffile.Section) []byte {
	if tab == nil || int(tab.Link) >= len(f.Sections) || f.Sections[tab.Link].Type != elf.SHT_STRTAB {
		return nil
	}
	b, err := f.Data(&f.Sections[tab.Link])
	if err != nil || uint64(len(b)) >= fromDyn {
		return nil
	}
	return b
}

// read appends the symbols of one table.
func (r *symReader) read(tab *elffile.Section, dyn bool) error {
	if tab == nil {
		return nil
	}
	b, err := elffile.SymbolData(r.f, tab)
	if err != nil {
		return err
	}
	which, mark := 0, uint32(0)
	if dyn {
		which, mark = 1, fromDyn
	}
	if r.strs[which] = strTab(r.f, tab); r.strs[which] == nil {
		return nil
	}
	r.names += 4*len(r.strs[which]) + 1<<20
	x := r.f.Extended(tab)
	if r.f.Class == elf.ELFCLASS64 && r.f.Order == binary.LittleEndian {
		r.read64le(b, x, mark)
	} else {
		r.readAny(b, x, mark)
	}
	r.f.Release(b)
	if len(r.out) > r.most {
		return errManySymbols
	}
	return nil
}

// open makes the names of a table available without reading its symbols.
func (r *symReader) open(dyn *elffile.Section) error {
	r.strs[1] = strTab(r.f, dyn)
	return nil
}

// samples is the number of dynamic symbols that are looked up before .dynsym is left out.
const samples = 64

// holdsAll reports whether the n symbols that were read include the dynamic ones too: they have
// no fewer global ones, and each of a sample of the dynamic ones.
func (r *symReader) holdsAll(dyn *elffile.Section, n int) bool {
	if dyn == nil || n == 0 || r.f.Class != elf.ELFCLASS64 || r.f.Synthetic {
		return false
	}
	global := 0
	for i := range r.out[:n] {
		if r.out[i].bind > 0 {
			global++
		}
	}
	d := symReader{f: r.f, exec: r.exec, data: r.data, most: 2 * samples}
	b, err := elffile.SymbolData(r.f, dyn)
	if err != nil {
		return false
	}
	for i := 0; i+24 <= len(b); i += 24 {
		typ, shndx := elf.SymType(b[i+4]&15), r.f.Order.Uint16(b[i+6:])
		if (typ <= elf.STT_FUNC || typ == elf.STT_GNU_IFUNC) && int(shndx) < len(r.exec) && shndx != 0 &&
			r.exec[shndx] != r.data {
			global--
		}
	}
	if global < 0 {
		return false
	}
	step := max(len(b)/24/samples, 1) * 24
	for i := 0; i+24 <= len(b); i += step {
		d.readAny(b[i:i+24], nil, fromDyn)
	}
	want := map[rawSym]bool{}
	var maybe [64]uint64 // bits of the values in want, so that most need no map
	for _, s := range d.out {
		s.name = 0
		want[s] = true
		maybe[s.value>>10&63] |= 1 << (s.value >> 4 & 63)
	}
	for i := range r.out[:n] {
		if s := r.out[i]; maybe[s.value>>10&63]>>(s.value>>4&63)&1 != 0 {
			s.name = 0
			delete(want, s)
		}
	}
	return len(want) == 0
}

// read64le is readAny for the most common files: 64-bit, little-endian.
func (r *symReader) read64le(b, x []byte, mark uint32) {
	plain := !r.f.Synthetic && r.f.Type != elf.ET_REL
	for i := 0; len(b) >= 24 && len(r.out) <= r.most; i, b = i+1, b[24:] {
		e := b[:24:24]
		typ, shndx := e[4]&15, binary.LittleEndian.Uint16(e[6:])
		if typ > uint8(elf.STT_FUNC) && typ != uint8(elf.STT_GNU_IFUNC) {
			continue
		}
		value, size, name := binary.LittleEndian.Uint64(e[8:]), binary.LittleEndian.Uint64(e[16:]),
			binary.LittleEndian.Uint32(e)
		if !plain || typ != uint8(elf.STT_FUNC) || shndx >= uint16(elf.SHN_LORESERVE) {
			r.add(value, size, name, mark, e[4], shndx, i, x)
			continue
		}
		if shndx == 0 || name == 0 || int(shndx) >= len(r.exec) || r.exec[shndx] == r.data {
			continue
		}
		r.out = append(r.out,
			rawSym{value, uint32(min(size, math.MaxUint32)), name | mark, symFunc, bindRank[e[4]>>4]})
	}
}

func (r *symReader) readAny(b, x []byte, mark uint32) {
	size := elf.Sym64Size
	if r.f.Class == elf.ELFCLASS32 {
		size = elf.Sym32Size
	}
	for i := 0; len(b) >= size && len(r.out) <= r.most; i, b = i+1, b[size:] {
		s := r.f.Symbol(b)
		r.add(s.Value, s.Size, s.Name, mark, s.Info, s.Shndx, i, x)
	}
}

// add appends symbol number i if it is of the kind to read.
func (r *symReader) add(value, size uint64, name, mark uint32, info uint8, shndx uint16, i int,
	x []byte,
) {
	sec := uint32(shndx)
	switch {
	case shndx == uint16(elf.SHN_UNDEF) || name == 0:
		return
	case shndx == uint16(elf.SHN_XINDEX):
		if len(x) < 4*i+4 {
			return
		}
		sec = r.f.Order.Uint32(x[4*i:])
	case shndx >= uint16(elf.SHN_LORESERVE):
		return // absolute and common symbols have no place in this file
	}
	if r.f.Synthetic {
		sec = uint32(max(elffile.SectionAt(r.f, value, false), 0))
	}
	if int(sec) >= len(r.exec) || r.exec[sec] == r.data {
		return
	}
	s := rawSym{value: value, size: uint32(min(size, math.MaxUint32)), name: name | mark}
	switch elf.SymType(info & 15) {
	case elf.STT_FUNC:
		s.kind = symFunc
	case elf.STT_GNU_IFUNC:
		s.kind = symIFunc
	case elf.STT_OBJECT:
		s.kind = symObject
	case elf.STT_NOTYPE:
		s.kind = symNoType
	default:
		return // sections, files, thread-local offsets
	}
	s.bind = bindRank[info>>4]
	if s.kind == symNoType && s.bind == 0 && r.isLabel(s.name) {
		return
	}
	if r.f.Machine == elf.EM_ARM && s.kind == symFunc {
		s.value &^= 1 // the Thumb bit
	}
	if r.f.Type == elf.ET_REL {
		s.value += r.f.Sections[sec].Addr
	}
	r.out = append(r.out, s)
}

// isLabel reports whether a local symbol without a type marks a place for tools only: mapping
// symbols ("$x", "$d.1": ELF for the Arm Architecture, and the RISC-V psABI) and compilers'
// local labels.
func (r *symReader) isLabel(name uint32) bool {
	n := r.strs[0]
	if name&fromDyn != 0 {
		n = r.strs[1]
	}
	if name &^= fromDyn; uint64(name) >= uint64(len(n)) {
		return true
	}
	n = n[name:]
	return n[0] == 0 || n[0] == '$' || bytes.HasPrefix(n, []byte(".L"))
}

func (r *symReader) nameBytes(name uint32) []byte {
	if name&fromDyn != 0 {
		return elffile.String(r.strs[1], uint64(name&^fromDyn))
	}
	return elffile.String(r.strs[0], uint64(name))
}

// maxSizes is the most symbols of different sizes that are kept of the aliases of one
// address; real addresses have one or two.
const maxSizes = 64

// table returns the table of the symbols that were read.
func (r *symReader) table() *symTable {
	order, free := r.order()
	b := newTableBuilder(distinct(order), free)
	// The symbols are scattered in memory. A loop that only moves some of them lets the
	// processor wait for many cache misses at a time.
	buf := make([]rawSym, 0, 256)
	for len(order) > 0 {
		n := min(cap(buf)-len(buf), len(order))
		if n == 0 { // many aliases fill the buffer: reduce them to make room
			kept := r.aliases(buf)
			kept = kept[max(len(kept)-maxSizes, 0):]
			buf = buf[:copy(buf, kept)]
			n = min(cap(buf)-len(buf), len(order))
		}
		for _, k := range order[:n] {
			buf = append(buf, r.out[uint32(k)])
		}
		order = order[n:]
		buf = buf[:copy(buf, r.addTo(b, buf, len(order) == 0))]
	}
	return b.table()
}

// addTo appends sorted symbols to a table and returns the rest: those of the last address,
// which may have more, unless end is set.
func (r *symReader) addTo(b *tableBuilder, sorted []rawSym, end bool) []rawSym {
	for len(sorted) > 0 {
		n, v := 1, sorted[0].value
		for n < len(sorted) && sorted[n].value == v {
			n++
		}
		if n == len(sorted) && !end {
			break
		}
		group := sorted[:1]
		if n > 1 {
			group = r.aliases(sorted[:n])
		}
		for k := range group {
			b.add(&group[k])
		}
		sorted = sorted[n:]
	}
	return sorted
}

// order returns the symbols' numbers (in the lower 32 bits) in the order of their values; the
// order of equal values does not matter. free is memory for as many values.
func (r *symReader) order() (order, free []uint64) {
	if len(r.out) == 0 {
		return nil, nil
	}
	lo, hi := r.out[0].value, r.out[0].value
	for i := range r.out {
		v := r.out[i].value
		lo, hi = min(lo, v), max(hi, v)
	}
	keys := make([]uint64, 2*len(r.out))
	keys, tmp := keys[:len(r.out)], keys[len(r.out):]
	if hi-lo >= 1<<32 {
		for i := range keys {
			keys[i] = uint64(i)
		}
		slices.SortFunc(keys, func(a, b uint64) int {
			return cmp.Compare(r.out[a].value, r.out[b].value)
		})
		return keys, tmp
	}
	for i := range r.out {
		keys[i] = (r.out[i].value-lo)<<32 | uint64(i)
	}
	if order = index.SortKeys(keys, tmp); &order[0] == &tmp[0] {
		return order, keys
	}
	return order, tmp
}

// distinct returns the number of values of symbols in that order, or a higher estimate.
func distinct(order []uint64) (n int) {
	for i := range order {
		if i == 0 || order[i]>>32 != order[i-1]>>32 {
			n++
		}
	}
	if n < len(order)/8 {
		return len(order) // the values are not in the keys
	}
	return n
}

// aliases reduces symbols of one address to one for each size, in place, the
// largest first, so that the innermost comes last; a symbol without a size
// stays only if it is alone.
func (r *symReader) aliases(g []rawSym) []rawSym {
	if slices.ContainsFunc(g[1:], func(s rawSym) bool { return s.size != g[0].size }) {
		slices.SortFunc(g, func(a, b rawSym) int { return r.compare(&a, &b) })
	} else { // nearly always
		best := 0
		for i := range g[1:] {
			if r.prefer(&g[i+1], &g[best]) < 0 {
				best = i + 1
			}
		}
		g[0] = g[best]
		return g[:1]
	}
	n := 1
	for i := 1; i < len(g); i++ {
		if g[i].size == g[n-1].size || g[i].size == 0 {
			continue
		}
		g[n] = g[i]
		n++
	}
	return g[:n]
}

// compare orders symbols of one address, the larger first, then the better.
func (r *symReader) compare(a, b *rawSym) int {
	if c := cmp.Compare(b.size, a.size); c != 0 {
		return c
	}
	return r.prefer(a, b)
}

// prefer orders aliases, the better first: by kind, then by binding, then those of .symtab,
// then names with fewer leading underscores, then the shorter, then by the name, so that the
// choice does not depend on the order of the file's tables.
func (r *symReader) prefer(a, b *rawSym) int {
	if c := cmp.Compare(b.kind, a.kind); c != 0 {
		return c
	}
	if c := cmp.Compare(b.bind, a.bind); c != 0 {
		return c
	}
	if c := cmp.Compare(a.name&fromDyn, b.name&fromDyn); c != 0 || a.name == b.name {
		return c
	}
	if r.names <= 0 {
		return cmp.Compare(a.name, b.name)
	}
	an, bn := r.nameBytes(a.name), r.nameBytes(b.name)
	r.names -= len(an) + len(bn)
	// glibc's internal aliases of its own functions (include/libc-symbols.h).
	if c := cmpBool(bytes.HasPrefix(an, []byte("__GI_")),
		bytes.HasPrefix(bn, []byte("__GI_"))); c != 0 {
		return c
	}
	if c := index.CompareNames(an, bn); c != 0 {
		return c
	}
	return cmp.Compare(a.name, b.name)
}

// tableBuilder builds a table of sorted symbols, and finds the symbols that enclose others.
type tableBuilder struct {
	t      *symTable
	values []uint64
	base   uint64   // of the range, as in AddrIndex
	end    uint64   // the furthest end of a sized symbol so far
	open   []uint32 // symbols that may enclose later ones, their ends descending
}

// newTableBuilder returns a builder for about n symbols. values is memory for all their values.
func newTableBuilder(n int, values []uint64) *tableBuilder {
	return &tableBuilder{values: values[:0], t: &symTable{
		syms: make([]sym, 0, n), kind: make([]uint8, 0, n),
	}}
}

// add appends a symbol that begins at or after all before it.
func (b *tableBuilder) add(s *rawSym) {
	t, i := b.t, uint32(len(b.values))
	kind, end := s.kind, s.value+uint64(s.size)
	if s.size == 0 && s.value < b.end {
		return // a label inside a function does not divide it
	}
	if s.size > 0 {
		b.end = max(b.end, end)
		for len(b.open) > 0 && b.endOf(b.open[len(b.open)-1]) <= end {
			b.open = b.open[:len(b.open)-1]
		}
		if len(b.open) > 0 {
			kind |= hasOuter
			t.outer = doubled(t.outer)
			t.outer = append(t.outer, outerSym{i, b.open[len(b.open)-1]})
		}
		b.open = append(doubled(b.open), i)
	}
	if i == 0 || s.value-b.base > index.MaxDistance {
		b.base = s.value
	}
	b.values = append(b.values, s.value)
	t.syms = append(t.syms, sym{uint32(s.value - b.base), s.size, s.name})
	t.kind = append(t.kind, kind)
}

func (b *tableBuilder) endOf(i uint32) uint64 { return b.values[i] + uint64(b.t.syms[i].size) }

func (b *tableBuilder) table() *symTable {
	t := b.t
	t.AddrIndex = index.NewAddrIndex(b.values)
	t.syms, t.kind, t.outer = fitted(t.syms), fitted(t.kind), fitted(t.outer)
	return t
}

// doubled returns s with room for one more, and as much again if there was none: append alone
// allocates five times what a long list takes.
func doubled[T any](s []T) []T {
	if len(s) < cap(s) {
		return s
	}
	return slices.Grow(s, len(s)+1)
}

// fitted returns s in memory of about its size: there may have been fewer symbols
// than were expected, or more.
func fitted[T any](s []T) []T {
	if cap(s)-len(s) <= len(s)/32 {
		return s
	}
	return append(make([]T, 0, len(s)), s...)
}
