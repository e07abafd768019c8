package symbol

import (
	"container/list"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/pclntab"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/stranger"
)

// ELF names the addresses of one ELF file: a program, a library, a separate debug file.
// Addresses are virtual addresses as the file numbers them; see VAddr and Offset for file
// offsets. An object file has no addresses yet: its addresses are offsets in the file.
// Nothing is read before the first lookup, and names stay in the file: the table takes 15
// bytes for each symbol. A Go program is named by its own function table, with source
// positions and inlined calls, even if it is stripped.
//
// If symbols enclose each other, the innermost one is returned. Among aliases a global
// symbol comes before a weak one and a weak one before a local one; then the one with fewer
// leading underscores, then the shorter, then the alphabetically first.
//
// It is safe for concurrent use, except Close, which must come last.
type ELF struct {
	f       *elffile.File
	path    string
	buildID string
	names   *names
	id      uint32 // of this file in names

	// Guarded by Processes.mu:
	refs     int           // images that share it
	used     uint64        // Processes.tick of the last use
	counted  int64         // bytes that Processes.elfBytes has
	inTables *list.Element // of Processes.tables

	owner stranger.Owner
	grown *atomic.Bool // set when a table is made; may be nil
	opts  sourceOptions
	text  elffile.Section // the largest section of code, for a quick answer

	code   atomic.Pointer[symTable]
	data   atomic.Pointer[symTable]
	source atomic.Pointer[source] // nil before findSource
	strs   atomic.Pointer[[2][]byte]
	mu     sync.Mutex // held while one of these is made
	// debug is the separate debug file, nil if none was found or looked for.
	debug      *elffile.File
	debugTried bool
	// broken is the Reason why the file can't be read, once that is known.
	broken atomic.Uint32
	// room is the memory that a table may take; 0: as much as the file's storage allows.
	room int64
	// start is called before a table is read, with its size in bytes; an error prevents that.
	// It may be nil.
	start func(size int64) error
}

// sourceOptions are the data to read besides symbols, and their places.
type sourceOptions struct {
	dwarf    bool
	noInline bool
	find     elffile.DebugFinder
}

// source is the source of a file's source positions.
type source struct {
	goTab *goTable    // nil: not a Go program
	dwarf *dwarfIndex // nil: not enabled, or the file has none
	// noDWARF is the reason why dwarf is nil although it is enabled.
	noDWARF Reason
}

// ELFOptions are the options for reading a file. The zero value, or nil, is the default.
type ELFOptions struct {
	// Path is the module name in frames; empty means the path that was opened.
	Path string
	// Source also reads DWARF, of the file or of its separate debug file, for
	// file, line, column and inlined calls. Go programs need no option for that.
	Source bool
	// NoInline leaves inlined calls out: one frame for each address.
	NoInline bool
	// DebugDirs are the directories with separate debug files. Their layout is that of GDB, or
	// that of the cache of a debuginfod client (by default ~/.cache/debuginfod_client). Nil
	// means /usr/lib/debug; an empty, non-nil list disables the search.
	DebugDirs []string
	// RawNames leaves C++ and Rust names mangled.
	RawNames bool
	// Demangle are the options for demangled names; RawNames disables them.
	Demangle DemangleOptions
	// NameCache is the most memory for kept names, in bytes; 0 means 4 MiB. The decoded
	// functions of a Go program, some 400 bytes each, take up to half as much in addition.
	NameCache int64
}

// OpenELF opens the file at path; opts may be nil. The caller must close it.
func OpenELF(path string, opts *ELFOptions) (*ELF, error) {
	file, err := procfs.Open(path)
	if err != nil {
		return nil, err
	}
	u := ownerOf(file)
	f, err := elffile.NewFile(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	e := newELF(f, u, opts)
	if e.path == "" {
		e.path = path
	}
	e.opts.find.Path = path
	return e, nil
}

// NewELF reads a file of the given size through r, which must stay readable until Close and
// which Close does not close; opts may be nil. An *os.File is mapped; from any other reader
// the needed sections are copied.
func NewELF(r io.ReaderAt, size int64, opts *ELFOptions) (*ELF, error) {
	if file, ok := r.(*os.File); ok {
		// The mapping does not depend on the descriptor, which stays the caller's.
		f, err := elffile.NewBorrowed(file)
		if err != nil {
			return nil, err
		}
		return newELF(f, ownerOf(file), opts), nil
	}
	f, err := elffile.New(r, size)
	if err != nil {
		return nil, err
	}
	return newELF(f, procfs.Anybody, opts), nil
}

// ownerOf returns the user that an open file belongs to.
func ownerOf(f *os.File) procfs.User {
	st, err := f.Stat()
	if err != nil {
		return procfs.Anybody
	}
	return procfs.Owner(st)
}

// newELF returns the ELF of a file of u's.
func newELF(f *elffile.File, u procfs.User, opts *ELFOptions) *ELF {
	if opts == nil {
		opts = &ELFOptions{}
	}
	var d *Demangler
	if !opts.RawNames {
		d = NewDemangler(&opts.Demangle)
	}
	e := &ELF{f: f, path: opts.Path, buildID: f.BuildID(), names: newNames(d, opts.NameCache)}
	e.opts = sourceOptions{dwarf: opts.Source, noInline: opts.NoInline}
	dirs := debugDirs(opts.DebugDirs)
	e.opts.find = elffile.DebugFinder{Dirs: dirs, Open: func(path string) (fs.File, error) {
		return elffile.OpenDebug(u, dirs, path, os.Getpid())
	}}
	e.init()
	return e
}

// init finds the largest section of code.
func (e *ELF) init() {
	for i := range e.f.Sections {
		if s := &e.f.Sections[i]; s.Flags&elf.SHF_EXECINSTR != 0 && s.Size > e.text.Size {
			e.text = *s
		}
	}
}

// Close unmaps the file. It may be called more than once.
func (e *ELF) Close() error {
	if e == nil {
		return nil
	}
	e.dropTables()
	if e.debug != nil {
		e.debug.Close()
		e.debug = nil
	}
	return e.f.Close()
}

// BuildID returns the file's GNU build-id in lower-case hex, empty if it has none.
func (e *ELF) BuildID() string { return e.buildID }

// Offset returns the offset in the file of the byte at a virtual address. ok is false if no
// loaded segment contains it.
func (e *ELF) Offset(vaddr uint64) (off uint64, ok bool) { return e.f.Offset(vaddr) }

// VAddr returns the virtual address of a file offset. If segments share a page, it is the
// address in the executable one. ok is false if no segment loads the offset.
func (e *ELF) VAddr(off uint64) (vaddr uint64, ok bool) { return e.f.VAddr(off, true) }

// findSource looks for a Go function table and for DWARF, once.
func (e *ELF) findSource() *source {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.source.Load(); s != nil {
		return s
	}
	s := &source{}
	if e.f.Synthetic && e.start != nil && e.start(pclntab.Work(e.f)/8) != nil {
		return s // later, perhaps: the symbols are refused as well
	}
	if t, err := pclntab.New(e.f); err == nil {
		s.goTab = newGoTable(t, e.names.limit)
	}
	if e.opts.dwarf {
		s.dwarf, s.noDWARF = e.openDWARF()
	}
	e.source.Store(s)
	return s
}

// table returns the code or the data symbols, read at the first call.
func (e *ELF) table(data bool) (*symTable, error) {
	p := &e.code
	if data {
		p = &e.data
	}
	if t := p.Load(); t != nil {
		return t, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := p.Load(); t != nil {
		return t, nil
	}
	r := &symReader{data: data, most: e.maxSymbols()}
	if err := e.readSymbols(r); err != nil {
		return nil, err
	}
	if !data {
		e.addPLT(r)
	}
	t := r.table()
	strs := r.strs
	e.strs.Store(&strs)
	p.Store(t)
	if e.grown != nil {
		e.grown.Store(true)
	}
	return t, nil
}

// readSymbols reads the symbol table of the file, or, if it was stripped, of its separate debug
// file or of the one in .gnu_debugdata; then the dynamic one.
func (e *ELF) readSymbols(r *symReader) error {
	f := e.symbolFile()
	sym, dyn := f.SectionOfType(elf.SHT_SYMTAB), e.f.SectionOfType(elf.SHT_DYNSYM)
	n := count(f, sym) + count(e.f, dyn)
	if e.start != nil {
		if err := e.start(int64(24 * n)); err != nil {
			return err
		}
	}
	if !r.data {
		r.out = make([]rawSym, 0, min(max(expected(f, sym), expected(e.f, dyn)), uint64(r.most)+1))
	}
	r.file(f)
	if err := r.read(sym, false); err != nil {
		return err
	}
	had := len(r.out)
	r.file(e.f)
	// The linker puts every dynamic symbol into .symtab as well: reading it again
	// would double the work. A .symtab that lost some has fewer global ones.
	if r.holdsAll(dyn, had) {
		return r.open(dyn)
	}
	return r.read(dyn, true)
}

// maxExpected is the most symbols that memory is allocated for without a look at them.
const maxExpected = 1 << 20

// expected returns about the number of symbols to read of a table. A large one may consist of
// zeros, so those that are defined are counted.
func expected(f *elffile.File, tab *elffile.Section) uint64 {
	n := count(f, tab)
	if n <= maxExpected {
		return n
	}
	return elffile.Defined(f, tab)
}

// count returns the number of symbols in a table, at most as many as fit in the file.
func count(f *elffile.File, tab *elffile.Section) uint64 {
	if tab == nil {
		return 0
	}
	return min(tab.Size, uint64(f.Stored())) / 24
}

// maxSymbols returns the largest number of symbols of a table: one takes 15 bytes.
func (e *ELF) maxSymbols() int {
	const perSymbol = 16
	if e.room > 0 {
		return int(min(e.room/perSymbol, math.MaxInt32))
	}
	return math.MaxInt32
}

// rawName returns the bytes of a name in the mapped file.
func (e *ELF) rawName(table stringTable, off uint32) []byte {
	switch table {
	case tabGoFunc:
		return e.source.Load().goTab.NameAt(off)
	case tabGoFile:
		return e.source.Load().goTab.FileAt(off)
	}
	strs := e.strs.Load()
	if strs == nil {
		return nil
	}
	if off&fromDyn == 0 {
		return elffile.String(strs[0], uint64(off))
	}
	return elffile.String(strs[1], uint64(off&^fromDyn))
}

// dropTables frees the tables; they are read again when needed.
func (e *ELF) dropTables() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.code.Store(nil)
	e.data.Store(nil)
	if s := e.source.Swap(nil); s != nil && s.dwarf != nil {
		s.dwarf.close()
	}
	e.f.Forget()
	if e.debug != nil {
		e.debug.Forget()
	}
}

func (e *ELF) hasTables() bool {
	s := e.source.Load()
	return e.code.Load() != nil || e.data.Load() != nil || s != nil && s.goTab != nil
}

// bytes returns the memory of the file's tables, in bytes, without kept names and mapped pages.
func (e *ELF) bytes() int64 {
	n := e.code.Load().bytes() + e.data.Load().bytes() + e.f.Heap() + elffile.Headers(e.f)
	e.mu.Lock()
	if e.debug != nil {
		n += e.debug.Heap() + elffile.Headers(e.debug)
	}
	e.mu.Unlock()
	if s := e.source.Load(); s != nil {
		n += s.goTab.bytes()
		if s.dwarf != nil {
			n += s.dwarf.bytes()
		}
	}
	return n
}

var _ Resolver = (*ELF)(nil)
