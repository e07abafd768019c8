package stack

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"slices"
	"unsafe"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/stack/internal/rules"
)

// CFITable is one file's call frame information (.eh_frame, .debug_frame), compiled to rows
// of four bytes: where a rule begins, and which of the file's few hundred distinct rules it
// is. It is immutable and safe for concurrent use.
type CFITable struct {
	rules rules.Table
	exprs [][]byte
	stats CFIStats
	how   FrameSource // what frames found by it say
}

// CFIStats describe the input that a table was compiled from. Sizes are in bytes.
type CFIStats struct {
	FDEs  int // frame descriptions compiled
	Bad   int // frame descriptions left out because they are malformed
	Rows  int // rows, gaps included
	Gaps  int // rows that say that no rule is known
	Rules int // distinct rules
	// Compact is the number of rows, gaps not counted, that need no DWARF expression: the
	// walker inside BPF can follow these.
	Compact int
	// Size is the memory that the table takes up.
	Size int
}

// minGap is the shortest stretch between two functions that gets a row of its
// own. Shorter ones are alignment, where no program counter ever is.
const minGap = 16

// ErrNoTable is the error for a file that lacks what would be read: call frame information,
// ORC data or an .sframe section.
var ErrNoTable = errors.New("no such unwind table in the file")

// OpenCFI compiles the call frame information of the ELF file at path. The file
// is not used after OpenCFI returns.
func OpenCFI(path string) (*CFITable, error) {
	f, err := elffile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := compileCFI(f, cfiRoom(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// NewCFI is OpenCFI for an ELF file of the given size that r reads; r is not
// used after NewCFI returns.
func NewCFI(r io.ReaderAt, size int64) (*CFITable, error) {
	f, err := elffile.New(r, size)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return compileCFI(f, cfiRoom(f))
}

// cfiRoom is the memory that compiling a file may take if the caller asked for it by name.
func cfiRoom(f *elffile.File) int64 { return 64<<20 + 8*f.Stored() }

// Stats returns the counts of the compiled input.
func (t *CFITable) Stats() CFIStats { return t.stats }

// CFIRules are the rules of a file: how to find the caller of each of its addresses.
type CFIRules = rules.Table

// Rules returns the table's rules, for the walker inside BPF (package bpfwalk). The caller
// must not change them.
func (t *CFITable) Rules() *CFIRules { return &t.rules }

// compileCFI compiles a file within room bytes of memory; one that takes more is
// elffile.ErrTooLarge. The work is bounded by that too.
func compileCFI(f *elffile.File, room int64) (t *CFITable, err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	switch {
	case !describes(f):
		return nil, fmt.Errorf("call frame information of %v: %w", f.Machine, errors.ErrUnsupported)
	case f.Type == elf.ET_REL:
		return nil, fmt.Errorf("call frame information of a relocatable file: %w", errors.ErrUnsupported)
	}
	b := newCFIBuilder(f.Machine, lowestAddress(f), room)
	if err := b.goTable(f); err != nil {
		return nil, err
	}
	for _, s := range cfiSections(f) {
		data, err := s.read(f)
		if err != nil {
			return nil, err
		}
		if b.left -= int64(len(data)) / 8; b.left < 0 { // several sections may be one
			return nil, errTooMuch
		}
		b.section(data, s.addr, s.debug)
		if b.full() {
			return nil, errTooMuch
		}
	}
	if len(b.segs) == 0 && b.stats.Bad == 0 {
		return nil, fmt.Errorf("call frame information: %w", ErrNoTable)
	}
	b.findStarts(f)
	b.addThunks(f)
	return b.table(), nil
}

// describes reports whether a file's call frame information can be compiled: not that of programs for
// amd64 that have 32-bit addresses (x32), and arm's has another form (.ARM.exidx).
func describes(f *elffile.File) bool {
	if f.Class == elf.ELFCLASS32 {
		return f.Machine == elf.EM_386
	}
	return f.Machine == elf.EM_X86_64 || f.Machine == elf.EM_AARCH64
}

func lowestAddress(f *elffile.File) uint64 {
	low := ^uint64(0)
	for i := range f.Progs {
		if p := &f.Progs[i]; p.Type == elf.PT_LOAD {
			low = min(low, p.Vaddr)
		}
	}
	return low
}

type cfiSection struct {
	section  *elffile.Section
	off, len uint64 // in the file, where there is no section
	addr     uint64
	debug    bool // .debug_frame's form
}

// size is that of the data, about, as far as the file has it.
func (s *cfiSection) size(f *elffile.File) int64 {
	size := s.len
	if s.section != nil {
		size = s.section.Size
	}
	n := int64(min(size, uint64(f.Size())))
	if s.section != nil && s.section.Flags&elf.SHF_COMPRESSED != 0 {
		n *= 4
	}
	return n
}

func (s *cfiSection) read(f *elffile.File) ([]byte, error) {
	if s.section != nil {
		return f.Data(s.section)
	}
	return f.Bytes(s.off, s.len)
}

// cfiSections finds .eh_frame, by the program header if there are no section
// headers, and .debug_frame.
func cfiSections(f *elffile.File) []cfiSection {
	var out []cfiSection
	if s := f.Section(".eh_frame"); s != nil && s.Type != elf.SHT_NOBITS {
		out = append(out, cfiSection{section: s, addr: s.Addr})
	} else if s, ok := ehFrameByHeader(f); ok {
		out = append(out, s)
	}
	for _, name := range []string{".debug_frame", ".zdebug_frame"} {
		if s := f.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			out = append(out, cfiSection{section: s, debug: true})
		}
	}
	return out
}

// ehFrameByHeader follows PT_GNU_EH_FRAME. The header does not state a length: the section
// may extend to the end of the segment, and the data has its own terminator.
func ehFrameByHeader(f *elffile.File) (cfiSection, bool) {
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PT_GNU_EH_FRAME {
			continue
		}
		hdr, err := f.Bytes(p.Offset, min(p.Filesz, 64))
		if err != nil || len(hdr) < 4 || hdr[0] != 1 {
			return cfiSection{}, false
		}
		rd := dwarfReader{b: hdr, pos: 4, narrow: f.Class == elf.ELFCLASS32}
		addr, ok := rd.pointer(hdr[1], p.Vaddr, p.Vaddr)
		off, found := f.Offset(addr)
		if !ok || !found {
			return cfiSection{}, false
		}
		for j := range f.Progs {
			if l := &f.Progs[j]; l.Type == elf.PT_LOAD && off >= l.Offset && off-l.Offset < l.Filesz {
				return cfiSection{
					off: off, len: min(l.Filesz-(off-l.Offset), uint64(f.Size())-off),
					addr: addr,
				}, true
			}
		}
	}
	return cfiSection{}, false
}

// cfiSeg is one FDE's rows while the table is built.
type cfiSeg struct {
	start, end uint32 // counted from base; end is exclusive
	first, n   uint32 // its rows
}

var errTooMuch = fmt.Errorf("call frame information: %w", elffile.ErrTooLarge)

// The memory that parts take while a table is built, about, in bytes.
const (
	rowCost  = 6
	segCost  = 16
	cieCost  = 700
	ruleCost = 200 // and what is saved
	exprCost = 120 // and the expression
)

// cfiBuilder compiles sections to a table.
type cfiBuilder struct {
	machine elf.Machine
	base    uint64
	segs    []cfiSeg
	pcs     []uint32
	index   []uint16
	ids     map[string]uint16
	rules   []rules.Rule
	exprs   [][]byte
	exprIDs map[string]int32
	key     []byte
	stats   CFIStats
	cies    map[int]*cie // nil ones can't be read
	spare   *cie         // for the next one
	cieLeft int          // bytes of CIEs that may be parsed yet
	left    int64        // memory that there is for other things than rows and FDEs
	starts  []uint32     // where stacks of coroutines begin: see findStarts
	start   uint16       // their rule
	goRows  int          // rows that there may be after those of Go's function table
	exec    cfiExec
}

// full reports whether the builder's memory is used up.
func (b *cfiBuilder) full() bool { return int64(rowCost*len(b.pcs)+segCost*len(b.segs)) > b.left }

func newCFIBuilder(m elf.Machine, base uint64, room int64) *cfiBuilder {
	room = min(room, math.MaxUint32) // rows are counted in 32 bits
	b := &cfiBuilder{
		machine: m, base: base, left: room, ids: make(map[string]uint16),
		exprIDs: make(map[string]int32),
	}
	var none cfiState
	b.intern(&none) // rule 0
	return b
}

// intern returns the number of the state's rule.
func (b *cfiBuilder) intern(s *cfiState) uint16 {
	b.key = s.key(b.key[:0])
	id, ok := b.ids[string(b.key)]
	if ok {
		return id
	}
	if len(b.rules) == rules.MaxRules {
		return 0
	}
	id = uint16(len(b.rules))
	b.ids[string(b.key)] = id
	b.rules = append(b.rules, s.rule(int32(wordSize(b.machine))))
	b.left -= int64(ruleCost + 3*len(b.key))
	return id
}

// expr keeps an expression and returns its number.
func (b *cfiBuilder) expr(e []byte) int32 {
	id, ok := b.exprIDs[string(e)]
	if !ok {
		id = int32(len(b.exprs))
		b.exprIDs[string(e)] = id
		b.exprs = append(b.exprs, slices.Clone(e))
		b.left -= int64(exprCost + 2*len(e))
	}
	return id
}

// table packs the FDEs' rows.
func (b *cfiBuilder) table() *CFITable {
	b.sortSegs()
	t := &CFITable{exprs: b.exprs, stats: b.stats, how: SourceCFI}
	t.rules = rules.Table{
		Machine: b.machine, Base: b.base, Rows: rules.PackRows(b.merged),
		Rules: slices.Clip(b.rules),
	}
	t.count()
	return t
}

func (t *CFITable) count() {
	s := &t.stats
	s.Rows, s.Rules = len(t.rules.Rows.Offs), len(t.rules.Rules)
	s.Size = t.rules.Rows.Bytes()
	compact := make([]bool, len(t.rules.Rules))
	for i := range t.rules.Rules {
		compact[i] = isCompact(t.rules.Machine, &t.rules.Rules[i])
		s.Size += int(unsafe.Sizeof(rules.Rule{})) +
			len(t.rules.Rules[i].Saved)*int(unsafe.Sizeof(rules.SavedReg{}))
	}
	for _, e := range t.exprs {
		s.Size += 24 + len(e)
	}
	for _, r := range t.rules.Rows.Index {
		switch {
		case r == 0:
			s.Gaps++
		case compact[r]:
			s.Compact++
		}
	}
}

// isCompact reports whether the CFA, the frame pointer and the return address are
// found without a DWARF expression.
func isCompact(m elf.Machine, r *rules.Rule) bool {
	if r.CFA.Kind == rules.CFAExpr {
		return false
	}
	needed := neededRegs(m)
	for _, s := range r.Saved {
		if slices.Contains(needed, uint64(s.Num)) && (s.Kind == rules.RegAtExpr || s.Kind == rules.RegValExpr) {
			return false
		}
	}
	return true
}

// neededRegs are the registers without which there is no walk: the frame pointer, and the return address's.
func neededRegs(m elf.Machine) []uint64 {
	if m == elf.EM_386 {
		return []uint64{I386EBP, I386EIP}
	}
	return []uint64{AMD64RBP, AMD64RIP, ARM64FP, ARM64LR}
}
