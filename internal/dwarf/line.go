package dwarf

import (
	"cmp"
	"slices"
)

// lineTable is a unit's decoded line program: sequences of rows, and the files that they refer
// to.
type lineTable struct {
	unit  *unit // the unit that owns it; a split unit uses its skeleton's table
	seqs  []sequence
	rows  []row
	files []fileEntry
	dirs  []value
}

// sequence is a run of rows with ascending addresses.
type sequence struct {
	lo, hi     uint64
	first, end int32 // rows
}

// row is the source position of the code from an address on.
type row struct {
	off  uint32 // from the sequence's start
	file uint32
	line uint32
	col  uint16
}

// fileEntry is a file. The names of files and directories are read on demand. If the form of
// name is 0, the unit's own attribute is used.
type fileEntry struct {
	name value
	dir  uint32
	path uint32 // number of its joined path in Data.paths, from 1; 0: not joined yet
}

// maxRows bounds the rows of one unit: an opcode of one byte produces at most one.
const maxRows = 1 << 26

// largeUnit is the number of rows from which a table takes over the buffer instead of a copy.
// Few units are that large, except in a malformed file.
const largeUnit = 1 << 16

// lineTableOf returns the unit's line table. It decodes it at the first call; the table is
// empty if the unit has none.
func (u *unit) lineTableOf() *lineTable {
	if u.lines == nil {
		u.lines = &lineTable{unit: u}
		if u.hasLine && u.lineOff < uint64(len(u.d.line)) {
			p := lineProgram{u: u, t: u.lines, c: cursor{b: u.d.line, off: int(u.lineOff), be: u.d.be}}
			whole := p.read()
			u.d.lackRoom(p.room)
			if !whole {
				u.d.lack(ErrMalformed)
			}
			u.d.grew(size(u.lines.seqs) + size(u.lines.rows) + size(u.lines.files) + size(u.lines.dirs))
		} else if u.hasLine {
			u.d.lack(ErrMalformed)
		}
	}
	return u.lines
}

// lookup returns the row of an address.
func (t *lineTable) lookup(pc uint64) (row, bool) {
	i, j := 0, len(t.seqs)
	for i < j {
		if m := int(uint(i+j) >> 1); t.seqs[m].lo <= pc {
			i = m + 1
		} else {
			j = m
		}
	}
	// Sequences rarely overlap. The one that covers the address is at most a few steps back.
	for n := 0; i > 0 && n < 16; n++ {
		i--
		s := &t.seqs[i]
		if pc >= s.hi {
			continue
		}
		rows := t.rows[s.first:s.end]
		off := pc - s.lo
		k, end := 0, len(rows)
		for k < end {
			if m := int(uint(k+end) >> 1); uint64(rows[m].off) <= off {
				k = m + 1
			} else {
				end = m
			}
		}
		if k == 0 {
			continue
		}
		return rows[k-1], true
	}
	return row{}, false
}

// lineProgram decodes a line program (6.2).
type lineProgram struct {
	u *unit
	t *lineTable
	c cursor

	offSize    int
	addrSize   int
	version    uint16
	minInst    uint64
	maxOps     uint64
	lineBase   int64
	lineRange  uint64
	opcodeBase uint8
	lengths    []byte

	lineSeq
	unsorted bool  // rows of a sequence are not ascending
	room     int64 // bytes left for t
	isStmt   bool  // the value of stmt at the start of a sequence

	visit *rowVisitor // receives the rows instead of t; may be nil
}

// lineSeq is the sequence that is being decoded.
type lineSeq struct {
	lo      uint64 // its first address
	opIndex uint64
	first   int // its first row
	started bool
	skip    bool // it is not needed
	stmt    bool // its next row is recommended for breakpoints
}

// lineUses bounds how often each byte of the line programs may be read.
const lineUses = 8

// read decodes the program. It returns false if the program is malformed.
func (p *lineProgram) read() bool {
	if !p.header() {
		return false
	}
	p.t.rows = p.u.d.rowBuf[:0]
	p.run()
	p.finish()
	return !p.c.bad
}

// header reads the program's header. It returns false if that is not possible.
func (p *lineProgram) header() bool {
	c := &p.c
	p.offSize, p.addrSize = 4, p.u.addrSize
	size := uint64(c.u32())
	if size == 0xffffffff {
		p.offSize, size = 8, c.u64()
	}
	if c.bad || size > uint64(len(c.b)-c.off) {
		return false
	}
	// Each program belongs to one unit, or to a few. In a malformed file, all units may refer
	// to the same program; that must not multiply it.
	if p.u.d.lineRead += int(size); p.u.d.lineRead > lineUses*len(p.u.d.line) {
		return false
	}
	c.b = c.b[:c.off+int(size)]
	p.version = c.u16()
	if p.version < 2 || p.version > 5 {
		return false
	}
	if p.version == 5 {
		p.addrSize = int(c.u8())
		c.u8() // segment selector size
	}
	header := c.uint(p.offSize)
	if header > uint64(len(c.b)-c.off) {
		return false
	}
	program := c.off + int(header)
	p.minInst, p.maxOps = uint64(c.u8()), 1
	if p.version >= 4 {
		p.maxOps = max(uint64(c.u8()), 1)
	}
	p.isStmt = c.u8() != 0 // tables also contain rows that are not statements
	p.stmt = p.isStmt
	p.lineBase = int64(int8(c.u8()))
	p.lineRange = uint64(c.u8())
	p.opcodeBase = c.u8()
	if p.opcodeBase == 0 || p.lineRange == 0 || c.bad {
		return false
	}
	p.lengths = c.take(int(p.opcodeBase) - 1)
	p.room = p.u.d.left()
	if p.version >= 5 {
		p.tablesV5()
	} else {
		p.tables()
	}
	if c.bad {
		return false
	}
	c.off = program
	return true
}

// tables reads the directories and files of versions 2 to 4, which are numbered from 1.
func (p *lineProgram) tables() {
	t, c := p.t, &p.c
	t.dirs = append(t.dirs, value{})
	for !c.bad {
		at := c.off
		if len(c.str()) == 0 {
			break
		}
		if t.dirs = push(t.dirs, value{form: formString, n: uint64(at)}, &p.room); p.room < 0 {
			c.bad = true
		}
	}
	t.files = append(t.files, fileEntry{})
	for !c.bad && p.file() {
		c.uleb() // time
		c.uleb() // length
	}
}

// file reads a file's name and directory. It returns false if there is none.
func (p *lineProgram) file() bool {
	c := &p.c
	f := fileEntry{name: value{form: formString, n: uint64(c.off)}}
	if len(c.str()) == 0 {
		return false
	}
	f.dir = uint32(min(c.uleb(), noDir))
	p.t.files = push(p.t.files, f, &p.room)
	return p.room >= 0
}

// noDir is a directory number that is in no table.
const noDir = 1<<32 - 1

// tablesV5 reads the directories and files of version 5, in the layout that the header
// describes.
func (p *lineProgram) tablesV5() {
	t := p.t
	p.entries(func(f fileEntry) { t.dirs = push(t.dirs, f.name, &p.room) })
	p.entries(func(f fileEntry) { t.files = push(t.files, f, &p.room) })
}

// entries reads a table and calls f for its entries.
func (p *lineProgram) entries(f func(fileEntry)) {
	const pathType, dirType = 1, 2 // DW_LNCT_path, DW_LNCT_directory_index
	c := &p.c
	var specs []attrSpec
	for range c.u8() {
		specs = append(specs, attrSpec{name: uint16(c.uleb()), form: formOf(c.uleb())})
	}
	// The forms are read like those of the unit, but with this table's sizes.
	u := *p.u
	u.offSize = p.offSize
	n := c.uleb()
	if len(specs) == 0 || n > uint64(len(c.b)) {
		return
	}
	for range n {
		var e fileEntry
		for _, s := range specs {
			v := u.read(c, s)
			switch s.name {
			case pathType:
				e.name = v
			case dirType:
				e.dir = uint32(min(v.n, noDir))
			}
		}
		if c.bad {
			return
		}
		if f(e); p.room < 0 {
			c.bad = true
			return
		}
	}
}

// lineSteps contains the effect of each special opcode (6.2.5.1): by how many operations and
// lines it advances. Programs of one compiler have the same parameters, so it is kept from one
// program to the next.
type lineSteps struct {
	lineBase  int64
	lineRange uint64
	base      uint8
	ops       [256]uint8
	lines     [256]int16
}

func (s *lineSteps) set(p *lineProgram) {
	if s.base == p.opcodeBase && s.lineBase == p.lineBase && s.lineRange == p.lineRange {
		return
	}
	s.base, s.lineBase, s.lineRange = p.opcodeBase, p.lineBase, p.lineRange
	for op := int(p.opcodeBase); op < 256; op++ {
		adj := uint64(op - int(p.opcodeBase))
		s.ops[op] = uint8(adj / p.lineRange)
		s.lines[op] = int16(p.lineBase + int64(adj%p.lineRange))
	}
}

// advance returns the address after n operations. opIndex counts the operations within one
// instruction, for processors that have several.
func (p *lineProgram) advance(addr, n uint64) uint64 {
	if p.maxOps == 1 {
		return addr + n*p.minInst
	}
	n += p.opIndex
	p.opIndex = n % p.maxOps
	return addr + p.minInst*(n/p.maxOps)
}

// run executes the program, on the line number machine of 6.2.2.
func (p *lineProgram) run() {
	b, i := p.c.b, p.c.off
	steps := &p.u.d.steps
	steps.set(p)
	base, special := p.opcodeBase, uint64(255-p.opcodeBase)/p.lineRange
	addr, file, line, col := uint64(0), uint64(1), int64(1), uint64(0)
	for i < len(b) {
		op := b[i]
		i++
		if op >= base {
			addr = p.advance(addr, uint64(steps.ops[op]))
			line += int64(steps.lines[op])
			p.emit(addr, file, line, col)
			continue
		}
		var n uint64
		switch op {
		case 0:
			var kind uint8
			if kind, n, i = p.extended(i); kind == endSequence {
				p.end(addr)
				addr, file, line, col = 0, 1, 1, 0
			} else if kind == setAddress {
				addr = n
			}
		case 1: // copy
			p.emit(addr, file, line, col)
		case 2: // advance_pc
			n, i = leb(b, i)
			addr = p.advance(addr, n)
		case 3: // advance_line
			var d int64
			d, i = sleb(b, i)
			line += d
		case 4: // set_file
			file, i = leb(b, i)
		case 5: // set_column
			col, i = leb(b, i)
		case 6: // negate_stmt
			p.stmt = !p.stmt
		case 7, 10, 11: // set_basic_block, set_prologue_end, set_epilogue_begin
		case 8: // const_add_pc
			addr = p.advance(addr, special)
		case 9: // fixed_advance_pc
			c := cursor{b: b, off: min(i, len(b)), be: p.c.be}
			addr, p.opIndex = addr+uint64(c.u16()), 0
			i = c.off
		default: // set_isa, and unknown opcodes
			for range p.lengths[op-1] {
				_, i = leb(b, i)
			}
		}
	}
	p.t.rows = p.t.rows[:p.first] // a sequence without an end
}

// emit appends a row.
func (p *lineProgram) emit(addr, file uint64, line int64, col uint64) {
	if p.visit != nil {
		p.visit.emit(addr, file, line, col)
		return
	}
	t := p.t
	if !p.started {
		p.lo, p.started = addr, true
	}
	off := addr - p.lo
	if addr < p.lo || off > 1<<32-1 || len(t.rows) >= maxRows {
		p.skip = true
		return
	}
	r := row{uint32(off), uint32(file), uint32(max(line, 0)), uint16(min(col, 0xffff))}
	if n := len(t.rows); n > p.first {
		last := &t.rows[n-1]
		// The last of several rows at one address counts.
		if last.off == r.off {
			*last = r
			return
		}
		p.unsorted = p.unsorted || r.off < last.off
		// A row that only repeats the last one marks a statement, for debuggers.
		if last.line == r.line && last.file == r.file && last.col == r.col && last.off < r.off {
			return
		}
	}
	if t.rows = push(t.rows, r, &p.room); p.room < 0 {
		p.skip = true
	}
}

// These are extended opcodes that change the state (6.2.5.3).
const (
	endSequence = 1
	setAddress  = 2
	defineFile  = 3
)

// extended reads an extended opcode, and for setAddress its address, and returns the offset
// behind it. If the opcode is malformed, that is the program's end.
func (p *lineProgram) extended(i int) (kind uint8, addr uint64, next int) {
	n, i := leb(p.c.b, i)
	if i > len(p.c.b) || n == 0 || n > uint64(len(p.c.b)-i) {
		return 0, 0, len(p.c.b)
	}
	kind, next = p.c.b[i], i+int(n)
	c := cursor{b: p.c.b, off: i + 1, be: p.c.be}
	switch kind {
	case setAddress:
		addr, p.opIndex = c.uint(min(int(n)-1, 8)), 0
		// The linker left this code out, or it is at the very start of a file that has its
		// code elsewhere: see emit in unit.go.
		if addr <= 1 || addr >= 1<<(8*uint(p.addrSize)-1)<<1-2 {
			p.skip = true
		}
	case defineFile:
		p.c.off = i + 1
		p.file()
	}
	return kind, addr, next
}

// end ends a sequence at an address.
func (p *lineProgram) end(addr uint64) {
	if p.visit != nil {
		p.visit.pass(Row{Addr: addr})
		p.lineSeq = lineSeq{stmt: p.isStmt}
		return
	}
	t := p.t
	n := len(t.seqs)
	if p.started && !p.skip && addr > p.lo && p.first < len(t.rows) {
		t.seqs = push(t.seqs, sequence{p.lo, addr, int32(p.first), int32(len(t.rows))}, &p.room)
	}
	if len(t.seqs) == n { // not needed: the next sequence may use its room
		p.room += size(t.rows[p.first:len(t.rows):len(t.rows)])
		t.rows = t.rows[:p.first]
	}
	p.lineSeq = lineSeq{first: len(t.rows), stmt: p.isStmt}
}

// finish sorts the sequences.
func (p *lineProgram) finish() {
	t := p.t
	if len(t.rows) > largeUnit {
		p.u.d.rowBuf, t.rows = nil, clip(t.rows)
	} else {
		p.u.d.rowBuf, t.rows = t.rows, slices.Clone(t.rows) // copied out of the buffer
	}
	t.seqs, t.files, t.dirs = clip(t.seqs), clip(t.files), clip(t.dirs)
	slices.SortFunc(t.seqs, func(a, b sequence) int { return cmp.Compare(a.lo, b.lo) })
	for i := range t.seqs {
		if s := &t.seqs[i]; p.unsorted {
			slices.SortStableFunc(t.rows[s.first:s.end], func(a, b row) int {
				return cmp.Compare(a.off, b.off)
			})
		}
	}
}

// path returns the path of a file, joined from the compilation directory, the
// file's directory and its name.
func (u *unit) path(file uint64) string {
	t := u.lineTableOf()
	if file >= uint64(len(t.files)) {
		return ""
	}
	f := &t.files[file]
	u = t.unit
	d := u.d
	if f.path != 0 {
		return d.paths[f.path-1]
	}
	var dir []byte
	if uint64(f.dir) < uint64(len(t.dirs)) {
		dir = u.lineStr(t.dirs[f.dir], u.compDir)
	}
	path := join(u.own(u.compDir), dir, u.lineStr(f.name, u.file))
	if n := int64(16 + len(path)); n <= d.left() {
		d.paths = append(d.paths, path)
		f.path = uint32(len(d.paths))
		d.grew(n)
	}
	return path
}

// lineStr returns a name in a line table. own is the unit's attribute to use instead of a name
// without a form.
func (u *unit) lineStr(v, own value) []byte {
	if v.form == 0 {
		return u.own(own)
	}
	return u.str(v, u.d.line)
}

func join(comp, dir, name []byte) string {
	if len(name) == 0 {
		return ""
	}
	if absolute(name) {
		return string(name)
	}
	out := make([]byte, 0, len(comp)+len(dir)+len(name)+2)
	add := func(b []byte) {
		if len(out) > 0 && out[len(out)-1] != '/' {
			out = append(out, '/')
		}
		out = append(out, b...)
	}
	if !absolute(dir) && len(comp) > 0 && string(dir) != string(comp) {
		add(comp)
	}
	if len(dir) > 0 {
		add(dir)
	}
	add(name)
	return string(out)
}

func absolute(p []byte) bool {
	return len(p) > 0 && p[0] == '/' || len(p) > 2 && p[1] == ':' && (p[2] == '\\' || p[2] == '/')
}
