package symbol

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// kernelTable is a parsed kallsyms: for each symbol 4 bytes of address (and 2
// of index), its type, its module's number, and its name in an arena, where it
// is found by the offset of every 16th name and the lengths in between.
type kernelTable struct {
	addrs
	typ     []byte   // nm's letter, and isMarker
	modRuns []modRun // which module the symbols from .first on belong to
	mods    []string // [0] is "[kernel]"
	arena   []byte   // names: length byte, bytes; 255 continues with the next byte
	skip    []uint32 // arena offset of every 16th name
	hidden  bool     // every address is 0: kptr_restrict
}

type modRun struct {
	first uint32
	mod   uint16
}

const nameSkip = 16

// kallsymsParser builds a kernelTable from a stream.
type kallsymsParser struct {
	values []uint64
	typ    []byte
	mod    []uint16
	offs   []uint32 // of each name in arena; dropped when the order is kept
	arena  []byte
	mods   []string
	last   []byte // name of the last module, with brackets
	lastID uint16
	all    bool // also data symbols
	zero   bool // no address was other than 0 so far
	n      int  // lines

	high      uint64 // the first 8 digits of the last address, as they are written
	highValue uint64 // and what they mean
	highKnown bool
}

// maxKallsymsLine is far above KSYM_NAME_LEN (512) and MODULE_NAME_LEN (56).
const maxKallsymsLine = 4096

// maxKernelSymbols bounds the table; a kernel with everything built in has some
// 300,000.
const maxKernelSymbols = 1 << 24

// parseKallsyms reads lines of "ADDRESS TYPE NAME\t[MODULE]": proc_kallsyms(5),
// kernel/kallsyms.c s_show. It keeps code, and data too if all is set.
func parseKallsyms(r io.Reader, all bool) (*kernelTable, error) {
	p := &kallsymsParser{mods: []string{"[kernel]"}, all: all, zero: true}
	buf := make([]byte, 256<<10)
	n := 0
	for {
		m, err := r.Read(buf[n:])
		n += m
		end := bytes.LastIndexByte(buf[:n], '\n') + 1
		if end > 0 {
			if err := p.lines(buf[:end]); err != nil {
				return nil, err
			}
			n = copy(buf, buf[end:n])
		}
		if n >= maxKallsymsLine {
			return nil, fmt.Errorf("kallsyms:%d: line is too long", p.n+1)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("kallsyms:%d: %w", p.n+1, err)
		}
	}
	if n > 0 {
		if err := p.lines(append(buf[:n], '\n')); err != nil {
			return nil, err
		}
	}
	return p.table(), nil
}

// lines parses whole lines.
func (p *kallsymsParser) lines(b []byte) error {
	for len(b) > 0 {
		p.n++
		end := bytes.IndexByte(b, '\n')
		line := b[:end]
		b = b[end+1:]
		if len(line) == 0 {
			continue
		}
		if err := p.line(line); err != nil {
			return err
		}
	}
	return nil
}

// isMarker is set in the type of symbols that end a section.
const isMarker = 0x80

// hexDigit maps a character to its value, 0xff if it is no hexadecimal digit.
var hexDigit = func() (t [256]uint8) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range 10 {
		t['0'+i] = uint8(i)
	}
	for i := range 6 {
		t['a'+i], t['A'+i] = uint8(10+i), uint8(10+i)
	}
	return t
}()

func (p *kallsymsParser) line(line []byte) error {
	var v uint64
	i := 0
	if len(line) > 16 && binary.LittleEndian.Uint64(line) == p.high && p.highKnown {
		i, v = 8, p.highValue // the upper half is that of the line before, nearly always
	}
	for ; i < len(line) && i < 17; i++ {
		d := hexDigit[line[i]]
		if d == 0xff {
			break
		}
		v = v<<4 | uint64(d)
	}
	if i == 16 {
		p.high, p.highValue, p.highKnown = binary.LittleEndian.Uint64(line), v>>32, true
	}
	if i == 0 || i > 16 || len(line) < i+4 || line[i] != ' ' || line[i+2] != ' ' {
		return p.bad("want ADDRESS TYPE NAME, got %q", line)
	}
	typ := line[i+1] &^ isMarker
	name := line[i+3:]
	var mod []byte
	// The module is the last word, after a tab.
	if name[len(name)-1] == ']' {
		if t := bytes.IndexByte(name, '\t'); t >= 0 {
			name, mod = name[:t], name[t+1:]
		}
	}
	if len(name) == 0 {
		return p.bad("no name in %q", line)
	}
	if v != 0 {
		p.zero = false
	}
	if !p.all && !isCode(typ) {
		return nil
	}
	if len(p.values) >= maxKernelSymbols {
		return p.bad("more than %d symbols", maxKernelSymbols)
	}
	if p.values == nil {
		p.grow(1 << 17)
	}
	id := uint16(0)
	if mod != nil {
		id = p.module(mod)
	}
	p.values = append(p.values, v)
	if marker(name) {
		typ |= isMarker
	}
	p.typ = append(p.typ, typ)
	p.mod = append(p.mod, id)
	p.offs = append(p.offs, uint32(len(p.arena)))
	p.arena = appendName(p.arena, name)
	return nil
}

// grow makes room for n symbols, so that the slices are not copied over and over.
func (p *kallsymsParser) grow(n int) {
	p.values = slices.Grow(p.values, n)
	p.typ = slices.Grow(p.typ, n)
	p.mod = slices.Grow(p.mod, n)
	p.offs = slices.Grow(p.offs, n)
	p.arena = slices.Grow(p.arena, 24*n)
}

func (p *kallsymsParser) bad(format string, args ...any) error {
	return fmt.Errorf("kallsyms:%d: "+format, append([]any{p.n}, args...)...)
}

// module returns the number of a module, given as "[name]".
func (p *kallsymsParser) module(mod []byte) uint16 {
	if bytes.Equal(mod, p.last) {
		return p.lastID
	}
	p.last = append(p.last[:0], mod...)
	for i := len(p.mods) - 1; i > 0; i-- {
		if p.mods[i] == string(mod) {
			p.lastID = uint16(i)
			return p.lastID
		}
	}
	if len(p.mods) > 0xffff {
		p.lastID = 0
		return 0
	}
	p.mods = append(p.mods, string(mod))
	p.lastID = uint16(len(p.mods) - 1)
	return p.lastID
}

// isCode reports whether a symbol type is one of code: text, also weak. Types
// are those of nm(1).
func isCode(t byte) bool { return t == 't' || t == 'T' || t == 'w' || t == 'W' }

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

// table sorts what was read. Kallsyms is sorted but for a few symbols (per-CPU
// data, ftrace's trampolines), which costs a second arena for a moment.
func (p *kallsymsParser) table() *kernelTable {
	t := &kernelTable{mods: p.mods, hidden: p.zero && p.n > 0}
	if t.hidden {
		return t
	}
	var order []uint32
	if slices.IsSorted(p.values) {
		p.orderAliases()
	} else {
		order = p.order()
	}
	if order == nil {
		t.typ, t.arena = slices.Clip(p.typ), p.arena
	} else {
		t.typ = make([]byte, len(order))
		t.arena = make([]byte, 0, len(p.arena))
	}
	if cap(t.arena)-len(p.arena) > len(p.arena)/64 {
		t.arena = append(make([]byte, 0, len(p.arena)), t.arena...)
	}
	values := p.values
	if order != nil {
		values = make([]uint64, len(order))
	}
	last := -1
	for i := range values {
		k, off := i, p.offs[i]
		if order != nil {
			k = int(order[i])
			values[i], t.typ[i] = p.values[k], p.typ[k]
			off = uint32(len(t.arena))
			name, _ := nameAt(p.arena, int(p.offs[k]))
			t.arena = appendName(t.arena, name)
		}
		if i%nameSkip == 0 {
			t.skip = append(t.skip, off)
		}
		if m := int(p.mod[k]); m != last {
			t.modRuns = append(t.modRuns, modRun{uint32(i), uint16(m)})
			last = m
		}
	}
	t.addrs = newAddrs(values)
	return t
}

// orderAliases puts symbols of one address in the order of preference, the best
// last, where all addresses ascend already. Their names take the same bytes of the
// arena in any order.
func (p *kallsymsParser) orderAliases() {
	var order []uint32
	var names, types []byte
	var mods []uint16
	for i := 0; i < len(p.values); {
		first := i
		sorted := true
		for i++; i < len(p.values) && p.values[i] == p.values[first]; i++ {
			sorted = sorted && p.compare(uint32(i-1), uint32(i)) <= 0
		}
		if sorted {
			continue
		}
		order, names, types, mods = order[:0], names[:0], types[:0], mods[:0]
		for k := first; k < i; k++ {
			order = append(order, uint32(k))
		}
		slices.SortFunc(order, p.compare)
		for _, k := range order {
			name, _ := nameAt(p.arena, int(p.offs[k]))
			names = appendName(names, name)
			types, mods = append(types, p.typ[k]), append(mods, p.mod[k])
		}
		at := int(p.offs[first])
		copy(p.arena[at:], names)
		copy(p.typ[first:], types)
		copy(p.mod[first:], mods)
		for k := first; k < i; k++ {
			p.offs[k] = uint32(at)
			_, at = nameAt(p.arena, at)
		}
	}
}

// order returns the symbols' order by address and preference, the best of
// aliases last.
func (p *kallsymsParser) order() []uint32 {
	order := make([]uint32, len(p.values))
	for i := range order {
		order[i] = uint32(i)
	}
	// The file is nearly sorted, which pdqsort makes use of.
	slices.SortFunc(order, func(a, b uint32) int {
		if c := cmp.Compare(p.values[a], p.values[b]); c != 0 {
			return c
		}
		return p.compare(a, b)
	})
	return order
}

// compare orders two symbols of one address, the better name last.
func (p *kallsymsParser) compare(a, b uint32) int {
	if c := cmp.Compare(typeRank(p.typ[a]), typeRank(p.typ[b])); c != 0 {
		return c
	}
	an, _ := nameAt(p.arena, int(p.offs[a]))
	bn, _ := nameAt(p.arena, int(p.offs[b]))
	if c := cmp.Compare(underscores(bn), underscores(an)); c != 0 {
		return c
	}
	if c := cmp.Compare(len(bn), len(an)); c != 0 {
		return c
	}
	if c := bytes.Compare(bn, an); c != 0 {
		return c
	}
	return cmp.Compare(p.mod[a], p.mod[b])
}

// typeRank prefers code to data and global to weak to local symbols.
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

// rawName returns the name of symbol i, as bytes of the arena.
func (t *kernelTable) rawName(i int) []byte {
	off := int(t.skip[i/nameSkip])
	var name []byte
	for range i%nameSkip + 1 {
		name, off = nameAt(t.arena, off)
	}
	return name
}

// module returns the module of symbol i.
func (t *kernelTable) module(i int) string {
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

func (t *kernelTable) bytes() int64 {
	n := t.addrs.bytes() + int64(cap(t.typ)+cap(t.arena)+4*cap(t.skip)+8*cap(t.modRuns))
	for _, m := range t.mods {
		n += int64(16 + len(m))
	}
	return n
}
