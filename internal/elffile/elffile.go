package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/procfs"
)

// These bound the counts and sizes in headers.
const (
	maxSections  = 1 << 20 // objects built with -ffunction-sections have about 100,000
	maxProgs     = 1 << 12
	maxCoreProgs = 1 << 20 // a process has 65,530 mappings by default (vm.max_map_count), or more
	maxNameLen   = 1 << 16 // C++ names of 20,000 bytes exist

	// maxLinkedSections bounds the sections of linked files, which have some dozens: as many as
	// can be counted without extended numbering.
	maxLinkedSections = 0xff00
	// maxTables bounds the tables of symbols: a file has one of each type (gABI, "Sections").
	maxTables = 16
	// maxSymbols bounds the symbols of a table. A browser with all its debug symbols has 2 million.
	maxSymbols = 1 << 25
)

// Section is a section header, with its name.
type Section struct {
	Name      string
	Type      elf.SectionType
	Flags     elf.SectionFlag
	Addr      uint64
	Offset    uint64
	Size      uint64
	Link      uint32
	Info      uint32
	Addralign uint64
	Entsize   uint64
}

// Contains reports whether the virtual address is in the section.
func (s *Section) Contains(addr uint64) bool {
	return addr >= s.Addr && addr-s.Addr < s.Size
}

// Prog is a program header.
type Prog struct {
	Type   elf.ProgType
	Flags  elf.ProgFlag
	Offset uint64
	Vaddr  uint64
	Filesz uint64
	Memsz  uint64
	Align  uint64
}

// File is an ELF file. Its fields do not change after it is opened. Its methods are safe for
// concurrent use, except Close, which must be called last.
type File struct {
	Class    elf.Class
	Order    binary.ByteOrder
	Type     elf.Type
	Machine  elf.Machine
	Entry    uint64
	Sections []Section // index 0 is the null section; empty if the file has none
	Progs    []Prog
	// Synthetic is set if the file has no section table and Sections was made from its
	// segments. Section numbers in symbols have no meaning then.
	Synthetic bool

	r      io.ReaderAt
	size   int64
	stored int64  // bytes of storage: see Stored
	most   int64  // limit of heap without names, by storage
	bound  int64  // limit of heap: see Bound
	mapped []byte // nil: read with r
	file   io.Closer

	spans [spanKinds]lazySpans

	mu    sync.Mutex
	cache map[int][]byte // decompressed and copied sections, by index; guarded by mu
	heap  int64          // bytes of cache; guarded by mu
	names int64          // those of them that are texts (isNames); guarded by mu
}

// FormatError is the error for malformed ELF.
type FormatError struct {
	Offset int64 // file offset of the malformed structure
	Msg    string
}

// Error returns "elf: offset 0x40: MSG".
func (e *FormatError) Error() string { return fmt.Sprintf("elf: offset %#x: %s", e.Offset, e.Msg) }

func tooLarge(s *Section, size uint64) error {
	return fmt.Errorf("elf: section %s of %d bytes: %w", s.Name, size, ErrTooLarge)
}

func bad(off uint64, format string, args ...any) error {
	return &FormatError{int64(off), fmt.Sprintf(format, args...)}
}

// Open maps the file at path. A path below a process's root (/proc/PID/root/…) is resolved in
// that root, including links. The caller closes the file.
func Open(path string) (*File, error) {
	f, err := procfs.Open(path)
	if err != nil {
		return nil, err
	}
	ef, err := NewFile(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ef, nil
}

// NewFile reads an open file like NewFS, and takes ownership of it. It closes the descriptor as
// soon as the file is mapped, because the mapping keeps the file alive; otherwise Close does. If
// NewFile returns an error, the caller still owns the file.
func NewFile(f fs.File) (*File, error) {
	ef, err := NewFS(f)
	if err != nil {
		return nil, err
	}
	if ef.mapped != nil {
		return ef, f.Close()
	}
	ef.file = f
	return ef, nil
}

// NewBorrowed maps an open file, which the caller still owns. On systems without mappings, and
// if its file system is remote, it is read instead, and must stay open until Close.
func NewBorrowed(f *os.File) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	ef := &File{r: f, size: st.Size(), stored: procfs.Stored(st)}
	ef.most, ef.bound = ef.room(), maxInflate
	if m, err := mapFile(f, st); err == nil {
		ef.mapped, ef.r = m, nil
	}
	if err := ef.parse(); err != nil {
		ef.Close()
		return nil, err
	}
	return ef, nil
}

// Mapped reports whether the file is mapped, so that it stays readable without the descriptor
// from which NewBorrowed or NewFS made it.
func (f *File) Mapped() bool { return f.mapped != nil }

// New reads an ELF file of the given size through r, which must stay readable until Close.
// Close does not close it.
func New(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size, stored: size}
	if file, ok := r.(interface{ Stat() (os.FileInfo, error) }); ok {
		if st, err := file.Stat(); err == nil && st.Mode().IsRegular() {
			f.stored = procfs.Stored(st)
		}
	}
	f.most, f.bound = f.room(), maxInflate
	if err := f.parse(); err != nil {
		return nil, err
	}
	return f, nil
}

// maxCopied bounds the size of files that are read into memory because their file system can
// only read them sequentially.
const maxCopied = 1 << 30

// NewFS reads an open file of this machine, which it maps, or of another file system. The
// caller still owns it, and must close it after Close.
func NewFS(f fs.File) (*File, error) {
	if file, ok := f.(*os.File); ok {
		return NewBorrowed(file)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if r, ok := f.(io.ReaderAt); ok {
		return New(r, st.Size())
	}
	if st.Size() > maxCopied {
		return nil, fmt.Errorf("a file of %d bytes that can only be read whole", st.Size())
	}
	b, err := io.ReadAll(io.LimitReader(f, st.Size()))
	if err != nil {
		return nil, err
	}
	return NewBytes(b)
}

// NewBytes reads an ELF file in memory, which must not change until Close.
func NewBytes(b []byte) (*File, error) { return New(bytesAt(b), int64(len(b))) }

// bytesAt is a ReaderAt with bytes that can be returned without a copy.
type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Size returns the file's size in bytes when it was opened.
func (f *File) Size() int64 { return f.size }

// Headers returns about how many bytes of memory a file's tables of sections and segments occupy.
func Headers(f *File) int64 { return int64(120*len(f.Sections) + 64*len(f.Progs)) }

// Heap returns the bytes of sections that were decompressed or copied into memory so far.
func (f *File) Heap() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heap
}

// Close unmaps the file. Slices of it must not be read afterwards. It may be called again.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	var errs []error
	if f.mapped != nil {
		errs = append(errs, unmap(f.mapped))
		f.mapped = nil
	}
	if f.file != nil {
		errs = append(errs, f.file.Close())
		f.file = nil
	}
	f.r = bytesAt(nil)
	f.size = 0
	f.cache, f.heap, f.names = nil, 0, 0
	return errors.Join(errs...)
}

// Bytes returns n bytes at the file offset: a slice of the mapping, or a copy. They may only
// be read in a function that defers Catch.
func (f *File) Bytes(off, n uint64) ([]byte, error) {
	if off > uint64(f.size) || n > uint64(f.size)-off {
		return nil, fmt.Errorf("elf: %d bytes at %#x: %w", n, off, io.ErrUnexpectedEOF)
	}
	if f.mapped != nil {
		return f.mapped[off : off+n : off+n], nil
	}
	if b, ok := f.r.(bytesAt); ok {
		return b[off : off+n : off+n], nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(f.r, int64(off), int64(n)), b); err != nil {
		return nil, fmt.Errorf("elf: %d bytes at %#x: %w", n, off, err)
	}
	return b, nil
}

// BytesAt is Bytes at a virtual address, by the loaded segments. The error matches fs.ErrNotExist if none
// has it.
func (f *File) BytesAt(vaddr, n uint64) ([]byte, error) {
	off, ok := f.Offset(vaddr)
	if !ok {
		return nil, notexist.Errorf("address %#x is not in a loaded segment", vaddr)
	}
	return f.Bytes(off, n)
}

// Whole returns the whole file, or ErrTooLarge if it is out of proportion to its storage. If
// start is not nil, Whole calls it before it reads that many bytes. Like that of Bytes, the
// result may only be read in a function that defers Catch.
func (f *File) Whole(start func(size int64) error) ([]byte, error) {
	if f.size > f.room() {
		return nil, fmt.Errorf("elf: a file of %d bytes: %w", f.size, ErrTooLarge)
	}
	if start != nil {
		if err := start(f.size); err != nil {
			return nil, err
		}
	}
	return f.Bytes(0, uint64(f.size))
}

// Section returns the first section of that name, nil if there is none.
func (f *File) Section(name string) *Section {
	for i := range f.Sections {
		if f.Sections[i].Name == name {
			return &f.Sections[i]
		}
	}
	return nil
}

// DebugSection returns the section .debug_NAME, or .zdebug_NAME, the name of compressed
// sections before SHF_COMPRESSED. It returns nil if there is neither.
func (f *File) DebugSection(name string) *Section {
	if s := f.Section(".debug_" + name); s != nil {
		return s
	}
	return f.Section(".zdebug_" + name)
}

// SectionOfType returns the first section of that type, nil if there is none.
func (f *File) SectionOfType(t elf.SectionType) *Section {
	for i := range f.Sections {
		if f.Sections[i].Type == t {
			return &f.Sections[i]
		}
	}
	return nil
}

// Data returns a section's bytes, decompressed if necessary. It returns nil without an error
// for nil and for sections that occupy no file space, and ErrTooLarge for a section that is
// out of proportion to the file's storage. Like those of Bytes, they may only be read in a
// function that defers Catch.
func (f *File) Data(s *Section) (b []byte, err error) {
	if s == nil || s.Type == elf.SHT_NOBITS || s.Size == 0 {
		return nil, nil
	}
	if s.Size > uint64(f.room()) {
		return nil, tooLarge(s, s.Size)
	}
	if s.Flags&elf.SHF_COMPRESSED == 0 && (f.mapped != nil || isBytes(f.r)) {
		if !gnuCompressed(s) {
			return f.Bytes(s.Offset, s.Size)
		}
	}
	key := f.indexOf(s)
	f.mu.Lock()
	defer f.mu.Unlock()
	if b, ok := f.cache[key]; ok {
		return b, nil
	}
	if f.mapped == nil && !isBytes(f.r) && s.Size > uint64(f.left(s.isNames())) {
		return nil, tooLarge(s, s.Size) // it would have to be copied
	}
	b, err = f.load(s)
	if err == nil && key >= 0 {
		f.keep(key, b)
		if s.isNames() {
			f.names += int64(cap(b))
		}
	}
	return b, err
}

// keep adds a section to the cache. The caller holds mu.
func (f *File) keep(key int, b []byte) {
	if f.cache == nil {
		f.cache = map[int][]byte{}
	}
	f.cache[key] = b
	f.heap += int64(cap(b))
}

// Forget drops the copies of sections that Data made.
func (f *File) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cache, f.heap, f.names = nil, 0, 0
}

func isBytes(r io.ReaderAt) bool {
	_, ok := r.(bytesAt)
	return ok
}

func (f *File) indexOf(s *Section) int {
	for i := range f.Sections {
		if &f.Sections[i] == s {
			return i
		}
	}
	return -1
}

// String returns the NUL-terminated string at offset off of a string table, as a slice of it.
// It returns nil if there is none.
func String(strtab []byte, off uint64) []byte {
	if off >= uint64(len(strtab)) {
		return nil
	}
	b := strtab[off:]
	if len(b) > maxNameLen {
		b = b[:maxNameLen]
	}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return nil // no terminator: not a string
}
