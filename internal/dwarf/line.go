package dwarf

import (
	"cmp"
	"slices"
)

// lineTable is a unit's decoded line program: sequences of rows, and the files
// that they name.
type lineTable struct {
	seqs  []sequence
	rows  []row
	files []fileEntry
	dirs  [][]byte
	paths []string // joined paths of files; nil until one is asked for
	v5    bool     // files count from 0
}

// sequence is a run of rows with ascending addresses.
type sequence struct {
	lo, hi     uint64
	first, end int32 // rows
}

// row says where the code from an address on comes from.
type row struct {
	off  uint32 // from the sequence's start
	file uint32
	line uint32
	col  uint16
}

type fileEntry struct {
	name []byte
	dir  uint64
}

// maxRows bounds the rows of one unit: an opcode of one byte makes at most one.
const maxRows = 1 << 26

// lineTableOf returns the unit's line table, decoded at the first call; nil if
// it has none.
func (u *unit) lineTableOf() *lineTable {
	if u.lines == nil {
		u.lines = &lineTable{}
		if u.hasLine && u.lineOff < uint64(len(u.d.line)) {
			p := lineProgram{u: u, t: u.lines, c: cursor{b: u.d.line, off: int(u.lineOff), be: u.d.be}}
			p.read()
			u.d.grew(int64(24*cap(u.lines.seqs)+16*cap(u.lines.rows)+32*cap(u.lines.files)) + 24*int64(cap(u.lines.dirs)))
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
	// Sequences rarely overlap; a few steps back find the one that covers.
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

	s        lineState
	unsorted bool // rows of a sequence go back
}

func (p *lineProgram) read() {
	c := &p.c
	p.offSize, p.addrSize = 4, p.u.addrSize
	size := uint64(c.u32())
	if size == 0xffffffff {
		p.offSize, size = 8, c.u64()
	}
	if c.bad || size > uint64(len(c.b)-c.off) {
		return
	}
	c.b = c.b[:c.off+int(size)]
	p.version = c.u16()
	if p.version < 2 || p.version > 5 {
		return
	}
	if p.version == 5 {
		p.addrSize = int(c.u8())
		c.u8() // segment selector size
	}
	header := c.uint(p.offSize)
	if header > uint64(len(c.b)-c.off) {
		return
	}
	program := c.off + int(header)
	p.minInst, p.maxOps = uint64(c.u8()), 1
	if p.version >= 4 {
		p.maxOps = max(uint64(c.u8()), 1)
	}
	c.u8() // default_is_stmt: rows that are no statements count too
	p.lineBase = int64(int8(c.u8()))
	p.lineRange = uint64(c.u8())
	p.opcodeBase = c.u8()
	if p.opcodeBase == 0 || p.lineRange == 0 || c.bad {
		return
	}
	p.lengths = c.take(int(p.opcodeBase) - 1)
	if p.version >= 5 {
		p.tablesV5()
	} else {
		p.tables()
	}
	if c.bad {
		return
	}
	c.off = program
	p.t.rows = p.u.d.rowBuf[:0]
	p.run()
	p.u.d.rowBuf = p.t.rows
	p.finish()
}

// tables reads the directories and files of versions 2 to 4; both count from 1.
func (p *lineProgram) tables() {
	t, c := p.t, &p.c
	t.dirs = append(t.dirs, p.u.compDir)
	for !c.bad {
		s := c.str()
		if len(s) == 0 {
			break
		}
		t.dirs = append(t.dirs, s)
	}
	t.files = append(t.files, fileEntry{name: p.u.file})
	for !c.bad {
		f := fileEntry{name: c.str()}
		if len(f.name) == 0 {
			return
		}
		f.dir = c.uleb()
		c.uleb() // time
		c.uleb() // length
		t.files = append(t.files, f)
	}
}

// tablesV5 reads those of version 5, whose layout the header describes.
func (p *lineProgram) tablesV5() {
	t := p.t
	t.v5 = true
	p.entries(func(n int) { t.dirs = make([][]byte, 0, n) }, func(f fileEntry) { t.dirs = append(t.dirs, f.name) })
	p.entries(func(n int) { t.files = make([]fileEntry, 0, n) }, func(f fileEntry) { t.files = append(t.files, f) })
}

// entries reads a table: it tells how many entries there are, as far as that can
// be true, and passes them on.
func (p *lineProgram) entries(size func(int), f func(fileEntry)) {
	const pathType, dirType = 1, 2 // DW_LNCT_path, DW_LNCT_directory_index
	c := &p.c
	var specs []attrSpec
	for range c.u8() {
		specs = append(specs, attrSpec{name: uint16(c.uleb()), form: uint16(c.uleb())})
	}
	// The forms are read as those of the unit, but with this table's sizes.
	u := *p.u
	u.offSize = p.offSize
	n := c.uleb()
	if len(specs) == 0 || n > uint64(len(c.b)) {
		return
	}
	size(int(min(n, uint64(len(c.b)-c.off)/8+1)))
	for range n {
		var e fileEntry
		for _, s := range specs {
			v := u.read(c, s)
			switch s.name {
			case pathType:
				e.name = u.str(v)
			case dirType:
				e.dir = v.n
			}
		}
		if c.bad {
			return
		}
		f(e)
	}
}

// lineSteps is what each special opcode does (6.2.5.1): how many operations and
// lines it advances. Programs of one compiler have the same parameters, so that
// it is kept from one to the next.
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

// lineState is the state of the line number machine (6.2.2).
type lineState struct {
	addr, opIndex, file, col uint64
	line                     int64

	lo      uint64 // of the sequence
	first   int32  // its first row
	started bool
	skip    bool // the sequence is of no use
}

func (p *lineProgram) reset() {
	p.s = lineState{file: 1, line: 1, first: int32(len(p.t.rows))}
}

func (p *lineProgram) advance(n uint64) {
	s := &p.s
	if p.maxOps == 1 {
		s.addr += n * p.minInst
		return
	}
	s.addr += p.minInst * ((s.opIndex + n) / p.maxOps)
	s.opIndex = (s.opIndex + n) % p.maxOps
}

// emit appends a row.
func (p *lineProgram) emit() {
	s, t := &p.s, p.t
	if !s.started {
		s.lo, s.started = s.addr, true
	}
	off := s.addr - s.lo
	if s.addr < s.lo || off > 1<<32-1 || len(t.rows) >= maxRows {
		s.skip = true
		return
	}
	r := row{uint32(off), uint32(s.file), uint32(max(s.line, 0)), uint16(min(s.col, 0xffff))}
	if n := len(t.rows); n > int(s.first) {
		last := &t.rows[n-1]
		// Of rows at one address the last counts.
		if last.off == r.off {
			*last = r
			return
		}
		p.unsorted = p.unsorted || r.off < last.off
		// A row that says the same again marks a statement, for debuggers.
		if last.line == r.line && last.file == r.file && last.col == r.col && last.off < r.off {
			return
		}
	}
	t.rows = append(t.rows, r)
}

// run executes the program.
func (p *lineProgram) run() {
	c, s := &p.c, &p.s
	steps := &p.u.d.steps
	steps.set(p)
	p.reset()
	for c.off < len(c.b) && !c.bad {
		op := c.u8()
		if op >= p.opcodeBase {
			p.advance(uint64(steps.ops[op]))
			s.line += int64(steps.lines[op])
			p.emit()
			continue
		}
		switch op {
		case 0:
			if !p.extended() {
				p.t.rows = p.t.rows[:s.first]
				return
			}
		case 1: // copy
			p.emit()
		case 2: // advance_pc
			p.advance(c.uleb())
		case 3: // advance_line
			s.line += c.sleb()
		case 4: // set_file
			s.file = c.uleb()
		case 5: // set_column
			s.col = c.uleb()
		case 6, 7, 10, 11: // negate_stmt, set_basic_block, set_prologue_end, set_epilogue_begin
		case 8: // const_add_pc
			p.advance(uint64(255-p.opcodeBase) / p.lineRange)
		case 9: // fixed_advance_pc
			s.addr, s.opIndex = s.addr+uint64(c.u16()), 0
		case 12: // set_isa
			c.uleb()
		default:
			for range p.lengths[op-1] {
				c.uleb()
			}
		}
	}
	p.t.rows = p.t.rows[:s.first] // a sequence without an end
}

// extended executes an extended opcode; false ends the program.
func (p *lineProgram) extended() bool {
	c, s, t := &p.c, &p.s, p.t
	n := c.uleb()
	if n == 0 || n > uint64(len(c.b)-c.off) {
		return false
	}
	end := c.off + int(n)
	switch c.u8() {
	case 1: // end_sequence
		if s.started && !s.skip && s.addr > s.lo && int(s.first) < len(t.rows) {
			t.seqs = append(t.seqs, sequence{s.lo, s.addr, s.first, int32(len(t.rows))})
		} else {
			t.rows = t.rows[:s.first]
		}
		p.reset()
	case 2: // set_address
		s.addr, s.opIndex = c.uint(min(int(n)-1, 8)), 0
		// Left out by the linker, or at the very start of a file that has its code
		// elsewhere: see emit in unit.go.
		if s.addr <= 1 || s.addr >= 1<<(8*uint(p.addrSize)-1)<<1-2 {
			s.skip = true
		}
	case 3: // define_file
		f := fileEntry{name: c.str()}
		f.dir = c.uleb()
		t.files = append(t.files, f)
	}
	c.off = end
	return true
}

// finish puts the sequences in order.
func (p *lineProgram) finish() {
	t := p.t
	t.rows = slices.Clone(t.rows) // out of the buffer
	slices.SortFunc(t.seqs, func(a, b sequence) int { return cmp.Compare(a.lo, b.lo) })
	for i := range t.seqs {
		if s := &t.seqs[i]; p.unsorted {
			slices.SortStableFunc(t.rows[s.first:s.end], func(a, b row) int { return cmp.Compare(a.off, b.off) })
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
	if t.paths == nil {
		t.paths = make([]string, len(t.files))
	}
	if t.paths[file] == "" {
		f := t.files[file]
		var dir []byte
		if f.dir < uint64(len(t.dirs)) {
			dir = t.dirs[f.dir]
		}
		t.paths[file] = join(u.compDir, dir, f.name)
		u.d.grew(int64(len(t.paths[file])))
	}
	return t.paths[file]
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
