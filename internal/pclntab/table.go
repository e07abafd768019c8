package pclntab

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/borescope/borescope/internal/elffile"
)

// These are the magic numbers of internal/abi/symtab.go.
const (
	magic116 = 0xfffffffa
	magic118 = 0xfffffff0
	magic120 = 0xfffffff1
)

// ErrNone is the error for a file without a function table, which is not a Go program.
var ErrNone = errors.New("no pclntab")

// Table is the function table of one module: a program, plugin or shared library.
type Table struct {
	le      bool
	ptr     int // size of a pointer
	minLC   uint64
	version int // 116, 118, 120
	nfunc   int
	text    uint64 // address that entries are relative to, since 1.18

	funcnames []byte
	cutab     []byte
	filetab   []byte
	pctab     []byte
	funcs     []byte // ftab, and the data to which its offsets are relative
	addr      uint64 // virtual address of the header
	size      int    // of the whole table

	f      *elffile.File
	gofunc uint64 // address that funcdata is relative to, since 1.18; 0: unknown

	tries int // number of places tried as the table's header or module data

	buckets []byte // the runtime's index of functions, and the bytes after it; may be nil
	minpc   uint64 // the address at which the first bucket begins
}

// Func is a function of a Table, for looking up one address or a few: it reads its tables for
// a bounded number of steps, and then no more (Spent).
type Func struct {
	t *Table
	// Entry is the address of the first instruction, End that of the next function. There may
	// be padding before End.
	Entry, End uint64
	// Index is the function's number in the table.
	Index int
	b     []byte // the _func structure and the bytes after it
	taken int    // steps through its pc-value tables
}

// maxSteps is far above the number of steps for an address in the largest functions of real
// programs, about ten thousand.
const maxSteps = 1 << 17

// Spent reports whether the function's tables were so long that it stopped reading them.
// Results from then on may be wrong.
func (fn *Func) Spent() bool { return fn.taken > maxSteps }

// Steps returns the number of steps taken through the function's tables.
func (fn *Func) Steps() int { return fn.taken }

// New finds and checks the function table of a file. It returns ErrNone if there is none.
func New(f *elffile.File) (*Table, error) {
	t := &Table{f: f, le: f.Order == binary.LittleEndian}
	if err := t.locate(); err != nil {
		return nil, err
	}
	m, haveModule := findModule(t)
	if haveModule {
		t.gofunc, t.minpc = m.gofunc, m.minpc
		t.buckets = t.memory(m.find)
	}
	if t.version >= 118 {
		// The header's text start is 0 since Go 1.26, and may be wrong before that if C code
		// was linked in front (golang/go#73748). The program itself uses the module data.
		if haveModule {
			t.text = m.text
		} else if text, err := textSymbol(f); err == nil {
			t.text = text
		} else if t.text == 0 {
			return nil, err
		}
	}
	return t, nil
}

// maxTries bounds the places that look like a header, or like module data, and are tried, so
// that malicious files do not take longer than others.
const maxTries = 256

// locate finds the table and reads its header.
func (t *Table) locate() error {
	if t.f.Synthetic {
		return t.search()
	}
	s := Section(t.f)
	if s == nil {
		return ErrNone
	}
	b, err := t.f.Data(s)
	if err != nil {
		return err
	}
	t.addr = s.Addr
	return t.header(b)
}

// search searches the segments of a file without sections for the table. The table begins with
// a magic number, two zeros and two small numbers, aligned to 8 bytes
// (internal/abi/symtab.go).
func (t *Table) search() error {
	const align = 8
	left := uint64(maxScan)
	for i := range t.f.Progs {
		p := &t.f.Progs[i]
		if p.Type != elf.PT_LOAD || p.Filesz > left {
			continue
		}
		left -= p.Filesz
		b, err := t.f.Bytes(p.Offset, p.Filesz)
		if err != nil {
			continue
		}
		for off := (-p.Vaddr) % align; off+align <= uint64(len(b)); off += align {
			if magic := t.u32(b[off:]); magic != magic120 && magic != magic118 && magic != magic116 {
				continue
			}
			if t.tries++; t.tries > maxTries {
				return ErrNone
			}
			t.addr = p.Vaddr + off
			if t.header(b[off:]) == nil && t.plausible() {
				return nil
			}
		}
	}
	return ErrNone
}

// plausible reports whether the bytes that search found are a table: its functions are in
// order, and have names.
func (t *Table) plausible() bool {
	for i := range min(t.nfunc, 64) {
		if t.entry(i) > t.entry(i+1) {
			return false
		}
		if fn, ok := t.Func(i); !ok || len(fn.Name()) == 0 {
			return false
		}
	}
	return true
}

// Section returns the section of a file's table, nil if no section has its name. In
// position-independent programs it once needed relocations, and has another name.
func Section(f *elffile.File) *elffile.Section {
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type != elf.SHT_NOBITS && (s.Name == ".gopclntab" || s.Name == ".data.rel.ro.gopclntab") {
			return s
		}
	}
	return nil
}

// Work returns how many bytes may be read for a file's table, 0 if it has none: those of its
// section or, in a file without sections, those that are searched.
func Work(f *elffile.File) int64 {
	most := uint64(f.Size())
	if f.Synthetic {
		return int64(min(most, maxScan))
	}
	s := Section(f)
	if s == nil {
		return 0
	}
	return int64(min(s.Size, most))
}

func (t *Table) u32(b []byte) uint32 {
	if t.le {
		return binary.LittleEndian.Uint32(b)
	}
	return binary.BigEndian.Uint32(b)
}

func (t *Table) uptr(b []byte) uint64 {
	if t.ptr == 4 {
		return uint64(t.u32(b))
	}
	if t.le {
		return binary.LittleEndian.Uint64(b)
	}
	return binary.BigEndian.Uint64(b)
}

// header checks pcHeader and splits the table into its parts.
func (t *Table) header(b []byte) error {
	if len(b) < 8 {
		return ErrNone
	}
	t.ptr, t.minLC = int(b[7]), uint64(b[6])
	if t.ptr != 4 && t.ptr != 8 || t.minLC == 0 || b[4] != 0 || b[5] != 0 {
		return fmt.Errorf("pclntab: bad header % x", b[:8])
	}
	words := 8
	switch magic := t.u32(b); magic {
	case magic116:
		t.version, words = 116, 7
	case magic118:
		t.version = 118
	case magic120:
		t.version = 120
	default:
		return fmt.Errorf("pclntab: unknown version %#x", magic)
	}
	if len(b) < 8+words*t.ptr {
		return errors.New("pclntab: the header is cut off")
	}
	var w [8]uint64
	for i := range words {
		w[i] = t.uptr(b[8+i*t.ptr:])
	}
	t.size = len(b)
	nfunc, offs := w[0], w[2:7]
	if words == 8 {
		t.text, offs = w[2], w[3:8]
	}
	parts := [5]*[]byte{&t.funcnames, &t.cutab, &t.filetab, &t.pctab, &t.funcs}
	for i, off := range offs {
		if off > uint64(len(b)) {
			return fmt.Errorf("pclntab: part %d lies outside", i)
		}
		*parts[i] = b[off:]
	}
	if nfunc == 0 || nfunc >= uint64(len(t.funcs)/(2*t.width())) {
		return fmt.Errorf("pclntab: %d functions do not fit", nfunc)
	}
	t.nfunc = int(nfunc)
	return nil
}

// width returns the size of each of the two fields of a functab entry.
func (t *Table) width() int {
	if t.version >= 118 {
		return 4
	}
	return t.ptr
}

// Size returns the number of bytes of the table.
func (t *Table) Size() int { return t.size }

// Len returns the number of functions.
func (t *Table) Len() int { return t.nfunc }

// entry returns the address of function i; i may be Len, the end of the last one.
func (t *Table) entry(i int) uint64 {
	if t.version >= 118 {
		return t.text + uint64(t.u32(t.funcs[8*i:]))
	}
	return t.uptr(t.funcs[2*t.ptr*i:])
}

// Find returns the function that contains an address.
func (t *Table) Find(pc uint64) (fn Func, ok bool) {
	i, ok := t.Index(pc)
	if !ok {
		return Func{}, false
	}
	return t.Func(i)
}

// Index returns the number of the function that contains an address.
func (t *Table) Index(pc uint64) (i int, ok bool) {
	if i, ok := t.bucket(pc); ok {
		return i, true
	}
	lo, hi := 0, t.nfunc+1
	if t.version >= 118 && t.le {
		// the usual case, without a call in every step
		off := pc - t.text
		for lo < hi {
			m := int(uint(lo+hi) >> 1)
			if uint64(binary.LittleEndian.Uint32(t.funcs[8*m:])) <= off {
				lo = m + 1
			} else {
				hi = m
			}
		}
	} else {
		for lo < hi {
			m := int(uint(lo+hi) >> 1)
			if t.entry(m) <= pc {
				lo = m + 1
			} else {
				hi = m
			}
		}
	}
	return lo - 1, lo > 0 && lo <= t.nfunc
}

// These describe the runtime's index (runtime/symtab.go, findfuncbucket;
// internal/abi/symtab.go). For each 4096 bytes of code it contains the number of the first
// function, and for each 256 of them one byte with the number of functions to skip.
const (
	bucketBytes = 4096
	bucketPart  = bucketBytes / 16
	bucketSize  = 4 + 16
)

// bucket returns the function at an address by the runtime's index. ok is false if there is no
// index or it does not agree with the table.
func (t *Table) bucket(pc uint64) (i int, ok bool) {
	off := pc - t.minpc
	at := off / bucketBytes * bucketSize
	if at+bucketSize > uint64(len(t.buckets)) {
		return 0, false
	}
	b := t.buckets[at : at+bucketSize]
	i = int(t.u32(b)) + int(b[4+off%bucketBytes/bucketPart])
	if i >= t.nfunc || t.entry(i) > pc {
		return 0, false
	}
	// At most 16 functions begin in a part.
	last := min(i+bucketPart/16+1, t.nfunc)
	if t.version >= 118 && t.le {
		// the usual case, with as little work as possible in every step
		for off := pc - t.text; i < last; i++ {
			if uint64(binary.LittleEndian.Uint32(t.funcs[8*i+8:])) > off {
				return i, true
			}
		}
		return 0, false
	}
	for ; i < last; i++ {
		if t.entry(i+1) > pc {
			return i, true
		}
	}
	return 0, false
}

// Bounds returns Func.Entry and Func.End of function i.
func (t *Table) Bounds(i int) (entry, end uint64) { return t.entry(i), t.entry(i + 1) }

// Func returns function i, 0 to Len-1. ok is false if the table is malformed there.
func (t *Table) Func(i int) (fn Func, ok bool) {
	w := t.width()
	at := uint64(t.u32(t.funcs[2*w*i+w:]))
	if w == 8 {
		at = t.uptr(t.funcs[2*w*i+w:])
	}
	if at >= uint64(len(t.funcs)) {
		return Func{}, false
	}
	fn = Func{t: t, Entry: t.entry(i), End: t.entry(i + 1), Index: i, b: t.funcs[at:]}
	return fn, len(fn.b) >= fn.fixed() && fn.End >= fn.Entry
}

// The _func structure is an entry (a pointer up to 1.17, then 4 bytes), and then words of 4
// bytes, in this order.
const (
	fieldName = iota
	fieldArgs
	fieldDeferReturn
	fieldPCSP
	fieldPCFile
	fieldPCLine
	fieldNPCData
	fieldCU
	fieldStartLine // since 1.20
)

// base returns the size of the entry field.
func (fn *Func) base() int {
	if fn.t.version >= 118 {
		return 4
	}
	return fn.t.ptr
}

// fixed returns the size of the structure up to the pcdata offsets: the words, and then
// function id, flag, padding and the number of funcdata.
func (fn *Func) fixed() int {
	n := fn.base() + 4*fieldStartLine + 4
	if fn.t.version >= 120 {
		n += 4
	}
	return n
}

func (fn *Func) field(i int) uint32 { return fn.t.u32(fn.b[fn.base()+4*i:]) }

// Name returns the function's name, as bytes of the file.
func (fn *Func) Name() []byte { return fn.t.name(fn.field(fieldName)) }

// ShortName returns Name if it has at most the given length, else nil.
func (fn *Func) ShortName(most int) []byte {
	names, off := fn.t.funcnames, uint64(fn.field(fieldName))
	return elffile.String(names[:min(off+uint64(most)+1, uint64(len(names)))], off)
}

// Names returns the functions' names by NameOffset. Their total length is bounded, as
// elffile.Names describes.
func (t *Table) Names() *elffile.Names {
	names := t.funcnames
	if n := len(names) - len(t.cutab); n > 0 { // the bytes after them
		names = names[:n]
	}
	return elffile.NewNames(names)
}

// NameOffset identifies the name within the table.
func (fn *Func) NameOffset() uint32 { return fn.field(fieldName) }

func (t *Table) name(off uint32) []byte { return elffile.String(t.funcnames, uint64(off)) }

// NameAt returns the name with that offset.
func (t *Table) NameAt(off uint32) []byte { return t.name(off) }

// StartLine returns the line of the func keyword, 0 before Go 1.20.
func (fn *Func) StartLine() int {
	if fn.t.version < 120 {
		return 0
	}
	return int(int32(fn.field(fieldStartLine)))
}

// SPDelta returns how many bytes the stack pointer is below its value at the function's entry.
// ok is false if the table does not contain it.
func (fn *Func) SPDelta(pc uint64) (delta int64, ok bool) {
	v, ok := fn.value(fn.field(fieldPCSP), pc)
	return int64(v), ok
}

// value walks a pc-value table: pairs of varints, which are a zigzag-encoded change of the
// value and the number of instructions for which it is valid.
func (fn *Func) value(off uint32, pc uint64) (v int32, ok bool) {
	t := fn.t
	if off == 0 || uint64(off) >= uint64(len(t.pctab)) {
		return -1, false
	}
	b := t.pctab[off:]
	// It counts instructions, not bytes, which saves a multiplication per step.
	left := (pc - fn.Entry) / t.minLC
	v = -1
	for i := 0; ; {
		if fn.taken++; fn.Spent() {
			return -1, false
		}
		var dv, dpc uint32
		if i+1 < len(b) && b[i]|b[i+1] < 0x80 { // one byte each: the usual case
			dv, dpc = uint32(b[i]), uint32(b[i+1])
			if dv == 0 && i > 0 {
				return -1, false
			}
			i += 2
		} else {
			first, n := i == 0, 0
			if dv, n = varint(b[i:]); n == 0 || dv == 0 && !first {
				return -1, false
			}
			i += n
			if dpc, n = varint(b[i:]); n == 0 {
				return -1, false
			}
			i += n
		}
		v += int32(dv>>1) ^ -int32(dv&1)
		if left < uint64(dpc) {
			return v, true
		}
		left -= uint64(dpc)
	}
}

// varint reads an LEB128 number of at most 32 bits. n is 0 if there is none.
func varint(b []byte) (v uint32, n int) {
	for i, c := range b {
		if i == 5 {
			break
		}
		v |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// Line returns the source line of an instruction.
func (fn *Func) Line(pc uint64) (line int, ok bool) {
	v, ok := fn.value(fn.field(fieldPCLine), pc)
	return int(v), ok
}

// FileOffset identifies the source file of an instruction within the table.
func (fn *Func) FileOffset(pc uint64) (off uint32, ok bool) {
	v, ok := fn.value(fn.field(fieldPCFile), pc)
	if !ok {
		return 0, false
	}
	return fn.File(v)
}

// File identifies the file with the number of a Run within the table.
func (fn *Func) File(v int32) (off uint32, ok bool) {
	if v < 0 {
		return 0, false
	}
	i := (uint64(fn.field(fieldCU)) + uint64(v)) * 4
	if i+4 > uint64(len(fn.t.cutab)) {
		return 0, false
	}
	off = fn.t.u32(fn.t.cutab[i:])
	return off, off != ^uint32(0)
}

// FileAt returns the path with that offset.
func (t *Table) FileAt(off uint32) []byte { return elffile.String(t.filetab, uint64(off)) }
