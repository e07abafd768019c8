package bpfwalk

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
)

// MapSpec describes a map that the walker inside BPF needs, with the fields of bpf(2), so
// that the caller can create it.
type MapSpec struct {
	Name       string // that the instructions refer to
	Type       uint32 // BPF_MAP_TYPE_ARRAY or BPF_MAP_TYPE_HASH
	KeySize    uint32 // bytes
	ValueSize  uint32 // bytes
	MaxEntries uint32
}

// Map is a created map. *ebpf.Map of github.com/cilium/ebpf is one.
type Map interface {
	// Put stores a value, in place of one that is there.
	Put(key, value any) error
	// Delete removes an entry; one that is not there is an error.
	Delete(key any) error
}

// MapProcesses is the name of the map by process, which every program with the walker has.
const MapProcesses = "stack_procs"

// The names of the others, which the walker's instructions refer to.
const (
	nameMappings = "stack_maps"
	nameRows     = "stack_rows"
	nameRules    = "stack_rules"
	nameHints    = "stack_hints"
)

const (
	bpfMapHash  = 1 // BPF_MAP_TYPE_HASH
	bpfMapArray = 2 // BPF_MAP_TYPE_ARRAY

	// chunkRows is how many rows one element of the rows map holds: their
	// addresses (uint32), then their rules (uint16).
	chunkRows     = 1 << chunkRowsLog
	chunkRowsLog  = 14
	chunkRules    = 4 * chunkRows // offset of the rules
	chunkSize     = 6 * chunkRows
	mappingsLog   = 10
	bpfMappingLen = 40

	// hints is how many places of rows that were found are kept, each a uint16: the program
	// looks there before it searches. All CPUs share them, for a hint that is overwritten costs
	// a search.
	hints = 1 << 14
)

// MaxMappings is the most executable mappings of a process that SetProcess accepts, counting
// one for each piece of a file with very many rows.
const MaxMappings = 1 << mappingsLog

// A mapping, as the program reads it: an address range and the rows for it.
const (
	mapStart = 0  // uint64
	mapEnd   = 8  // uint64
	mapBias  = 16 // uint64; address - bias is what rows count from
	mapChunk = 24 // uint32
	mapFirst = 28 // uint32; first row in the chunk
	mapRows  = 32 // uint32; 0: no rules are known here
)

// Limits bound the size of the tables of the walker inside BPF. The zero value and nil are
// the defaults.
type Limits struct {
	// Rows is the number of rows of all files together; 0 means 2,097,152. A row takes six
	// bytes, allocated when the maps are created. libc has 28,000 rows, gdb 150,000.
	Rows int
	// Mappings is the number of executable mappings of all processes together; 0 means
	// 32,768. A mapping takes 40 bytes.
	Mappings int
	// Processes is the number of processes; 0 means 8,192.
	Processes int
	// Rules is the number of different rules, at most 65,536; 0 means 16,384.
	Rules int
}

func (l *Limits) withDefaults() Limits {
	var v Limits
	if l != nil {
		v = *l
	}
	v.Rows = cmp.Or(v.Rows, 1<<21)
	v.Mappings = cmp.Or(v.Mappings, 1<<15)
	v.Processes = cmp.Or(v.Processes, 1<<13)
	v.Rules = cmp.Or(v.Rules, 1<<14)
	v.Rules = min(v.Rules, rules.MaxRules)
	return v
}

// chunks is the number of elements of the rows map.
func (l *Limits) chunks() int { return (l.Rows + chunkRows - 1) / chunkRows }

// Maps returns the maps to create for these limits.
func Maps(limits *Limits) []MapSpec {
	l := limits.withDefaults()
	return []MapSpec{
		{MapProcesses, bpfMapHash, 4, 8, uint32(l.Processes)},
		{nameMappings, bpfMapArray, 4, bpfMappingLen, uint32(l.Mappings)},
		{nameRows, bpfMapArray, 4, chunkSize, uint32(l.chunks())},
		{nameRules, bpfMapArray, 4, bpfRuleSize, uint32(l.Rules)},
		{nameHints, bpfMapArray, 4, 2 * hints, 1},
	}
}

// ErrBudget is the error when the tables of the walker inside BPF are full. The process is
// then walked by frame pointers.
var ErrBudget = errors.New("tables of the BPF stack walker are full")

// Tables fills the maps of the walker inside BPF: the mappings of each process, and the
// rules of files, which processes share. A process that was not added is walked by frame
// pointers. It borrows the maps. It is for one goroutine at a time.
type Tables struct {
	limits Limits
	maps   map[string]Map

	rules  map[[bpfRuleSize]byte]uint16
	files  map[*stack.CFITable]*bpfFile
	chunks []*bpfChunk
	free   []span // of mappings, in order
	procs  map[int]*bpfProc
	python map[int]bool // processes in namePython
	rows   int

	// idle are files that no process has any more, the one that has been idle for longest first:
	// the next process that runs one needs no other copy.
	idle     []*stack.CFITable
	idleRows int
}

// idleShare is the part of all rows that idle files may have.
const idleShare = 16

// bpfFile is where a file's rows lie.
type bpfFile struct {
	pieces []bpfPiece
	users  int // processes
}

func (f *bpfFile) rows() (n int) {
	for _, p := range f.pieces {
		n += p.rows
	}
	return n
}

// bpfPiece is a run of rows in one chunk.
type bpfPiece struct {
	from, to    uint32 // addresses that it covers, counted from the table's base
	last        bool   // to is open
	chunk       int
	first, rows int
}

// bpfChunk is a copy of one element of the rows map.
type bpfChunk struct {
	data []byte
	free []span
}

type bpfProc struct {
	span  span
	files []*stack.CFITable
}

// NewTables returns tables that fill maps. They must be created as Maps(limits) describes,
// and are given by name.
func NewTables(maps map[string]Map, limits *Limits) (*Tables, error) {
	t := &Tables{
		limits: limits.withDefaults(), maps: maps,
		rules: make(map[[bpfRuleSize]byte]uint16), files: make(map[*stack.CFITable]*bpfFile),
		procs:  make(map[int]*bpfProc),
		python: make(map[int]bool),
	}
	for _, s := range Maps(limits) {
		if maps[s.Name] == nil {
			return nil, fmt.Errorf("BPF stack walker: no map %s", s.Name)
		}
	}
	// The first mapping is never used, so that 0 can mean none.
	t.free = []span{{1, t.limits.Mappings - 1}}
	var none [bpfRuleSize]byte
	t.rules[none] = 0 // the element is zero already
	return t, nil
}

// Rows returns the number of rows of files that are in the kernel.
func (t *Tables) Rows() int { return t.rows }

// SetProcess replaces the mappings that the program has of a process. Files that no process
// uses any more are removed when they are many, or others need their room. A walk at that very moment may find other rules in their
// place, and return wrong frames for that one sample. After an error the process is as it
// was before, or is unknown.
func (t *Tables) SetProcess(pid int, mods *stack.Modules) error {
	p, entries, err := t.place(mods)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	for i, e := range entries {
		if err := t.maps[nameMappings].Put(uint32(p.span.first+i), e); err != nil {
			t.drop(p)
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	var v [8]byte
	binary.NativeEndian.PutUint32(v[:], uint32(p.span.first))
	binary.NativeEndian.PutUint32(v[4:], uint32(len(entries)))
	if err := t.maps[MapProcesses].Put(uint32(pid), v[:]); err != nil {
		t.drop(p)
		return fmt.Errorf("process %d: %w", pid, err)
	}
	if old := t.procs[pid]; old != nil {
		t.drop(old)
	}
	t.procs[pid] = p
	return nil
}

// Has reports whether a process is among those that SetProcess added. On a nil Tables none is.
func (t *Tables) Has(pid int) bool { return t != nil && t.procs[pid] != nil }

// RemoveProcess removes a process that has ended.
func (t *Tables) RemoveProcess(pid int) error {
	p := t.procs[pid]
	if p == nil {
		return nil
	}
	delete(t.procs, pid)
	err := t.maps[MapProcesses].Delete(uint32(pid))
	t.drop(p)
	if t.python[pid] {
		err = errors.Join(err, t.SetPython(pid, nil))
	}
	return err
}

// place finds room for a process's mappings and its files' rows.
func (t *Tables) place(mods *stack.Modules) (*bpfProc, [][]byte, error) {
	p := &bpfProc{}
	var entries [][]byte
	for i := range mods.All() {
		m := &mods.All()[i]
		if m.Start >= 1<<63 { // vsyscall: the program compares addresses as signed numbers
			continue
		}
		if m.CFI == nil || m.CFI.Rules().Machine == elf.EM_386 { // its code is not walked
			entries = append(entries, bpfMapping(m.Start, m.End, 0, nil))
			continue
		}
		f, err := t.file(m.CFI)
		if err != nil {
			t.drop(p)
			return nil, nil, err
		}
		f.users++
		p.files = append(p.files, m.CFI)
		entries = f.mappings(entries, m)
	}
	if len(entries) > MaxMappings {
		t.drop(p)
		return nil, nil, fmt.Errorf("%d executable mappings: %w", len(entries), ErrBudget)
	}
	first, ok := take(&t.free, max(1, len(entries)))
	if !ok {
		t.drop(p)
		return nil, nil, fmt.Errorf("mappings: %w", ErrBudget)
	}
	p.span = span{first, max(1, len(entries))}
	return p, entries, nil
}

// drop gives back what a process has.
func (t *Tables) drop(p *bpfProc) {
	for _, c := range p.files {
		f := t.files[c]
		if f.users--; f.users == 0 {
			t.idle = append(t.idle, c)
			t.idleRows += f.rows()
		}
	}
	for t.idleRows > t.limits.Rows/idleShare {
		t.reclaim()
	}
	if p.span.n > 0 {
		give(&t.free, p.span)
	}
}

// reclaim removes the file that has been idle for longest, and reports whether there was one.
func (t *Tables) reclaim() bool {
	if len(t.idle) == 0 {
		return false
	}
	c := t.idle[0]
	t.idle = slices.Delete(t.idle, 0, 1)
	t.idleRows -= t.files[c].rows()
	t.forget(c, t.files[c])
	return true
}

// revive takes a file from the idle ones if it is one.
func (t *Tables) revive(c *stack.CFITable, f *bpfFile) {
	if i := slices.Index(t.idle, c); i >= 0 {
		t.idle = slices.Delete(t.idle, i, i+1)
		t.idleRows -= f.rows()
	}
}

func (t *Tables) forget(c *stack.CFITable, f *bpfFile) {
	delete(t.files, c)
	for _, p := range f.pieces {
		give(&t.chunks[p.chunk].free, span{p.first, p.rows})
		t.rows -= p.rows
	}
}

// file returns where a file's rows lie, and puts them there if they are new.
func (t *Tables) file(c *stack.CFITable) (*bpfFile, error) {
	if f := t.files[c]; f != nil {
		if f.users == 0 {
			t.revive(c, f)
		}
		return f, nil
	}
	f := &bpfFile{}
	t.files[c] = f
	table := c.Rules()
	enc := newEncoder(table)
	rules := make([]uint16, len(table.Rules))
	for i := range table.Rules {
		id, err := t.rule(enc.rule(&table.Rules[i]))
		if err != nil {
			t.forget(c, f)
			return nil, err
		}
		rules[i] = id
	}
	pcs, index := projectRows(table, rules)
	for at := 0; at < len(pcs); {
		chunk, first, n := t.room(len(pcs) - at)
		if n == 0 && t.reclaim() {
			continue
		}
		if n == 0 {
			t.forget(c, f)
			return nil, fmt.Errorf("%d rows: %w", len(pcs), ErrBudget)
		}
		data := t.chunks[chunk].data
		for i := range n {
			binary.NativeEndian.PutUint32(data[4*(first+i):], pcs[at+i])
			binary.NativeEndian.PutUint16(data[chunkRules+2*(first+i):], index[at+i])
		}
		p := bpfPiece{from: pcs[at], chunk: chunk, first: first, rows: n}
		if at += n; at < len(pcs) {
			p.to = pcs[at]
		} else {
			p.last = true
		}
		f.pieces = append(f.pieces, p)
		t.rows += n
		if err := t.maps[nameRows].Put(uint32(chunk), data); err != nil {
			t.forget(c, f)
			return nil, err
		}
	}
	return f, nil
}

// room finds space for up to want rows in one chunk: all of them where they
// fit, else the largest space there is.
func (t *Tables) room(want int) (chunk, first, n int) {
	best, size := -1, 0
	for i, c := range t.chunks {
		for _, s := range c.free {
			if s.n >= want {
				first, _ = takeFrom(&c.free, s.first, want)
				return i, first, want
			}
			if s.n > size {
				best, size = i, s.n
			}
		}
	}
	if len(t.chunks) < t.limits.chunks() {
		t.chunks = append(t.chunks,
			&bpfChunk{data: make([]byte, chunkSize), free: []span{{0, chunkRows}}})
		best, size = len(t.chunks)-1, chunkRows
	}
	if best < 0 {
		return 0, 0, 0
	}
	n = min(want, size)
	first, _ = take(&t.chunks[best].free, n)
	return best, first, n
}

// rule returns the number of a rule, and writes it if it is new.
func (t *Tables) rule(r [bpfRuleSize]byte) (uint16, error) {
	id, ok := t.rules[r]
	if ok {
		return id, nil
	}
	if len(t.rules) >= t.limits.Rules {
		return 0, fmt.Errorf("rules: %w", ErrBudget)
	}
	id = uint16(len(t.rules))
	if err := t.maps[nameRules].Put(uint32(id), r[:]); err != nil {
		return 0, err
	}
	t.rules[r] = id
	return id, nil
}

// mappings appends an entry for every piece of the file that lies in the module.
func (f *bpfFile) mappings(dst [][]byte, m *stack.Module) [][]byte {
	base := m.Bias + m.CFI.Rules().Base
	for i := range f.pieces {
		p := &f.pieces[i]
		start, end := max(m.Start, base+uint64(p.from)), m.End
		if i == 0 {
			start = m.Start // what lies before the first row has no rule
		}
		if !p.last {
			end = min(end, base+uint64(p.to))
		}
		if start < end {
			dst = append(dst, bpfMapping(start, end, base, p))
		}
	}
	return dst
}

func bpfMapping(start, end, bias uint64, p *bpfPiece) []byte {
	b := make([]byte, bpfMappingLen)
	o := binary.NativeEndian
	o.PutUint64(b[mapStart:], start)
	o.PutUint64(b[mapEnd:], end)
	o.PutUint64(b[mapBias:], bias)
	if p != nil {
		o.PutUint32(b[mapChunk:], uint32(p.chunk))
		o.PutUint32(b[mapFirst:], uint32(p.first))
		o.PutUint32(b[mapRows:], uint32(p.rows))
	}
	return b
}
