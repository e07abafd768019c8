// Package core reads core files, of processes that crashed or that gcore recorded: the memory
// and the threads of the process, and the files that it had mapped. Package stack walks the
// stacks.
//
//	c, err := core.Open("core.1234")
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	mods, err := c.Modules(nil) // joins the errors of files that are not there; mods has the others
//	w := stack.CFIWalker{Modules: mods}
//	for i := range c.Threads {
//		n, end := w.Walk(frames[:], &c.Threads[i].Regs, c)
//	}
//
// Write makes small core files, which hold only the memory that walking needs. The package
// needs neither privileges nor Linux.
package core

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/decompress"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/stack"
)

// File is a core file: the memory and the threads of a process as they were when it crashed
// or was recorded. It implements stack.Memory for the memory that the file holds. It is
// safe for concurrent use, except Close.
type File struct {
	// Machine is the process's architecture: amd64, arm64, or i386 for a 32-bit process.
	Machine elf.Machine
	// PID is the process, Comm its name; 0 and empty if the file does not have them.
	PID  int
	Comm string
	// Threads are the threads, the one that crashed first.
	Threads []Thread

	r      io.ReaderAt
	closer io.Closer
	notes  []noteSegment
	segs   []coreSegment
	files  []elfnotes.Mapping
	vdso   uint64

	phdr, phnum uint64 // the program's own headers in memory
}

// Thread is a thread's state.
type Thread struct {
	TID  int        // as the process's pid namespace numbers it
	Regs stack.Regs // as they were when it stopped
}

// coreSegment is a stretch of the process's memory; size bytes of it are in the
// file.
type coreSegment struct {
	addr, memsz, off, size uint64
	flags                  elf.ProgFlag
}

func (s *coreSegment) end() uint64 { return s.addr + s.memsz }

// A core file that is compressed may expand to much more than it takes up, because most of a
// process's memory is zeros: these bound the bytes of all, and those in blocks that are not all
// zeros. The core of many threads' stacks expands to 500 times its size, and its other contents
// to 10 times. What is not zeros is held in memory up to spoolMemory, and else in a
// temporary file.
const (
	leastUnpacked, maxUnpack = 1 << 30, 1024
	leastContent, maxContent = 24 << 20, 32
	spoolMemory              = 16 << 20
)

// Open opens a core file of the kernel, of gcore or of Write. The caller must close it.
//
// It may be compressed (gzip, zstd, xz, lz4). Then it is decompressed, up to 1024 times the
// storage that the file takes up plus 1 GiB, of which 32 times plus 24 MiB may be other than
// zeros; with more than that, Open returns an error. Up to 16 MiB are held in memory. More is
// held in a file without a name in the directory for temporary files (os.TempDir), with holes
// where there are zeros, until Close.
func Open(path string) (*File, error) {
	f, err := procfs.Open(path)
	if err != nil {
		return nil, err
	}
	c, err := openFile(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// openFile returns the core file in f, which is closed with it, or before if it is compressed.
func openFile(f *os.File) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	stored := procfs.Stored(st)
	var magic [8]byte
	_, _ = f.ReadAt(magic[:], 0)
	format := decompress.Detect(magic[:])
	if format == decompress.None {
		c, err := newFile(f, st.Size(), stored)
		if err == nil {
			c.closer = f
		}
		return c, err
	}
	s, err := unpack(format, f, st.Size(), stored)
	if err != nil {
		return nil, err
	}
	c, err := newFile(s, s.Size(), s.Stored())
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	c.closer = s
	return c, f.Close()
}

// unpack decompresses a core file of size bytes that takes up stored.
func unpack(format decompress.Format, r io.ReaderAt, size, stored int64) (*decompress.Spooled,
	error,
) {
	b := decompress.Bounds{
		Size: leastUnpacked + maxUnpack*stored, Content: leastContent + maxContent*stored,
		Memory: spoolMemory,
		Check: func(head []byte) error {
			f, err := elffile.NewBytes(withoutTables(head))
			if err != nil {
				return err
			}
			return isCore(f)
		},
	}
	z, err := decompress.NewReaderAt(format, r, size, b.Content)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return decompress.Spool(z, b)
}

// New reads a core file of the given size through r, which must stay readable for as long
// as the File is used.
func New(r io.ReaderAt, size int64) (*File, error) {
	stored := size
	if file, ok := r.(interface{ Stat() (os.FileInfo, error) }); ok {
		if st, err := file.Stat(); err == nil {
			stored = procfs.Stored(st)
		}
	}
	return newFile(r, size, stored)
}

// isCore returns an error unless the file is a core file that can be read.
func isCore(f *elffile.File) error {
	if f.Type != elf.ET_CORE {
		return fmt.Errorf("not a core file but %v", f.Type)
	}
	switch {
	case f.Class == elf.ELFCLASS32 && f.Machine == elf.EM_386:
	case f.Class == elf.ELFCLASS64 && (f.Machine == elf.EM_X86_64 || f.Machine == elf.EM_AARCH64):
	default:
		return fmt.Errorf("core file of %v: %w", f.Machine, errors.ErrUnsupported)
	}
	return nil
}

// newFile reads a core file that takes up stored bytes.
func newFile(r io.ReaderAt, size, stored int64) (*File, error) {
	f, err := elffile.New(r, size)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := isCore(f); err != nil {
		return nil, err
	}
	c := &File{Machine: f.Machine, r: r}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		s := coreSegment{addr: p.Vaddr, memsz: p.Memsz, off: p.Offset, flags: p.Flags}
		if p.Offset < uint64(size) { // a core file may have been cut short
			s.size = min(p.Filesz, p.Memsz, uint64(size)-p.Offset)
		}
		if s.end() < s.addr {
			return nil, fmt.Errorf("core file: segment at %#x is too long", s.addr)
		}
		c.segs = append(c.segs, s)
	}
	if err := c.readNotes(f, stored); err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.segs, func(a, b coreSegment) int {
		if a.addr < b.addr {
			return -1
		}
		return 1
	})
	if len(c.Threads) == 0 {
		return nil, errors.New("core file: no threads")
	}
	return c, nil
}

// maxCoreNotes is some 60,000 threads. Notes that the file's storage does not bound, because
// they are in a hole, are bounded by leastNotes.
const maxCoreNotes, leastNotes = 256 << 20, 16 << 20

// noteSegment is the notes of a segment.
type noteSegment struct {
	b     []byte
	align int
}

// readNotes reads the notes of all segments, those of segments over each other once: the work
// is bounded by the file and not by the number of its headers.
func (c *File) readNotes(f *elffile.File, stored int64) error {
	var list []elffile.Prog
	for _, p := range f.Progs {
		if p.Type == elf.PT_NOTE && p.Filesz > 0 {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(a, b elffile.Prog) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(b.Filesz, a.Filesz))
	})
	left := uint64(min(maxCoreNotes, stored+leastNotes))
	end := uint64(0)
	for _, p := range list {
		if p.Offset < end {
			if p.Filesz <= end-p.Offset {
				continue // another header for the same notes
			}
			return fmt.Errorf("core file: notes at %#x overlap others", p.Offset)
		}
		if p.Offset > uint64(f.Size()) || p.Filesz > uint64(f.Size())-p.Offset {
			return fmt.Errorf("core file: notes: %w", io.ErrUnexpectedEOF)
		}
		if p.Filesz > left {
			return fmt.Errorf("core file: %d bytes of notes are more than the limit: %w", p.Filesz,
				elffile.ErrTooLarge)
		}
		left, end = left-p.Filesz, p.Offset+p.Filesz
		b := make([]byte, p.Filesz)
		if n, err := c.r.ReadAt(b, int64(p.Offset)); n < len(b) {
			return fmt.Errorf("core file: notes: %w", err)
		}
		c.notes = append(c.notes, noteSegment{b, int(p.Align)})
	}
	for _, n := range c.notes {
		if err := c.takeAll(n, f.Order); err != nil {
			return err
		}
	}
	return nil
}

// takeAll keeps what the notes of a segment say.
func (c *File) takeAll(n noteSegment, order binary.ByteOrder) error {
	const prstatus = 1 // NT_PRSTATUS
	threads := 0
	list, errOf := elfnotes.All(n.b, order, n.align)
	for n := range list {
		if n.Type == prstatus && len(n.Desc) > 0 {
			threads++
		}
	}
	if err := errOf(); err != nil {
		return err
	}
	c.Threads = slices.Grow(c.Threads, threads)
	for n := range list {
		c.take(n)
	}
	return nil
}

// take keeps what a note says.
func (c *File) take(n elfnotes.Note) {
	n.Class, n.Machine = c.layout().class, c.Machine
	v, err := n.Decode()
	if err != nil {
		return // a note that is malformed says nothing; the threads' are checked
	}
	switch v := v.(type) {
	case elfnotes.PRStatus:
		t := Thread{TID: int(v.PID), Regs: stack.Regs{Machine: c.Machine}}
		for i := range len(t.Regs.R) {
			if x, ok := v.Reg(i); ok {
				t.Regs.Set(i, x)
			}
		}
		c.Threads = append(c.Threads, t)
	case elfnotes.PRPSInfo:
		c.PID, c.Comm = int(v.PID), v.Name
	case elfnotes.FileMap:
		c.files = v.Mappings
	case elfnotes.Auxv:
		const atPHDR, atPHNum, atSysinfoEHDR = 3, 5, 33
		c.vdso, _ = v.Find(atSysinfoEHDR)
		c.phdr, _ = v.Find(atPHDR)
		c.phnum, _ = v.Find(atPHNum)
	}
}

// Close closes the file that Open opened.
func (c *File) Close() error {
	if c == nil || c.closer == nil {
		return nil
	}
	f := c.closer
	c.closer = nil
	return f.Close()
}

// ReadMemory implements stack.Memory. Pages that the kernel left out of the file (by
// coredump_filter, mostly programs' code) can't be read.
func (c *File) ReadMemory(dst []byte, addr uint64) error {
	for len(dst) > 0 {
		s := c.segment(addr)
		if s == nil || addr-s.addr >= s.size {
			return stack.ErrNoMemory
		}
		n := min(uint64(len(dst)), s.size-(addr-s.addr))
		if got, err := c.r.ReadAt(dst[:n], int64(s.off+addr-s.addr)); uint64(got) < n {
			return fmt.Errorf("core file: %w", err)
		}
		dst, addr = dst[n:], addr+n
	}
	return nil
}

// segment returns the segment that holds an address.
func (c *File) segment(addr uint64) *coreSegment {
	i := sort.Search(len(c.segs), func(i int) bool { return c.segs[i].addr > addr }) - 1
	if i < 0 || addr >= c.segs[i].end() {
		return nil
	}
	return &c.segs[i]
}

// Modules returns the executable mappings, with the programs and libraries at the paths in
// the core file, below root (nil: this machine's). A file whose build-id differs from the
// one in the core file is not used. As with stack.CFICache.Modules, the error joins one for
// each file that can't be used, and the modules can be used all the same.
func (c *File) Modules(root fs.FS) (*stack.Modules, error) {
	var list []stack.Module
	var errs []error
	files, left := c.codeFiles()
	ids := buildIDs{}
	list = make([]stack.Module, 0, min(len(c.files), 4*len(files)))
	for i := range c.files {
		f := &c.files[i]
		t := files[f.Path]
		if t == nil || !c.MayBeCode(f.Start) {
			continue
		}
		m := stack.Module{Start: f.Start, End: f.End, Offset: f.Offset, Name: f.Path}
		code, err := c.loadModule(root, ids, t, f, &m, list)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Name, err))
		}
		if code {
			list = append(list, m)
		}
	}
	named := stack.NewModules(list...)
	for i := range c.segs {
		s := &c.segs[i]
		isVDSO := c.vdso >= s.addr && c.vdso < s.end()
		if s.flags&elf.PF_X == 0 && !isVDSO || s.memsz == 0 || named.Find(s.addr) != nil {
			continue
		}
		m := stack.Module{Start: s.addr, End: s.end()} // JIT code
		if isVDSO {
			m.Name = "[vdso]"
			if err := m.LoadImage(c); err != nil {
				errs = append(errs, fmt.Errorf("[vdso]: %w", err))
			}
		}
		list = append(list, m)
	}
	if left > 0 {
		errs = append(errs, fmt.Errorf("core file: %d mappings of files besides the first %d are left out",
			left, maxFiles))
	}
	return stack.NewModules(list...), errors.Join(errs...)
}

// maxFiles bounds how many different files of a core file are opened. Processes with thousands
// of libraries exist.
const maxFiles = 10_000

// coreFile is a file that the process had mapped.
type coreFile struct {
	head uint64 // where its beginning was mapped first, 0 if it was not
	read bool
	cfi  *stack.FileCFI
	err  error
	said bool // the caller has the error
}

// codeFiles returns the files of which mappings may be code, by path, up to maxFiles of them,
// and how many mappings are of others.
func (c *File) codeFiles() (files map[string]*coreFile, left int) {
	files = map[string]*coreFile{}
	for i := range c.files {
		f := &c.files[i]
		t := files[f.Path]
		if t == nil {
			if len(files) == maxFiles {
				left++
				continue
			}
			t = &coreFile{}
			files[f.Path] = t
		}
		if f.Offset == 0 && t.head == 0 {
			t.head = f.Start
		}
	}
	return files, left
}

// Mappings returns the files that the process had mapped, by address. The caller must not
// change them.
func (c *File) Mappings() []elfnotes.Mapping { return c.files }

// MayBeCode reports whether the memory at an address may have been code. That includes
// addresses that are not in the file, because gcore leaves executable mappings out.
func (c *File) MayBeCode(addr uint64) bool {
	s := c.segment(addr)
	return s == nil || s.flags&elf.PF_X != 0
}

// loadModule finds a mapped file's table, and says whether the mapping is code.
func (c *File) loadModule(root fs.FS, ids buildIDs, t *coreFile, f *elfnotes.Mapping,
	m *stack.Module, before []stack.Module,
) (bool, error) {
	if !t.read {
		t.read = true
		t.cfi, t.err = stack.ReadFileCFI(root, f.Path, ids.of(c, t.head))
	}
	if t.err != nil { // without the file there is no telling, but by the core itself
		s := c.segment(f.Start)
		code := s != nil && s.flags&elf.PF_X != 0
		err := t.err
		var format *elffile.FormatError
		if errors.As(err, &format) && !code {
			return false, nil // a locale, a font
		}
		if t.said {
			err = nil
		}
		t.said = true
		return code, err
	}
	if t.cfi.Locate(m, before) {
		return true, nil
	}
	s := c.segment(f.Start)
	return s != nil && s.flags&elf.PF_X != 0, nil
}

// maxHead is how much of a mapped file is looked at, in bytes: a page, of which the program
// headers and the build-id of linkers take a quarter.
const maxHead = 4 << 10

// buildID finds the build-id of a file whose beginning was mapped at an address in the core
// file, where the kernel keeps the first page of ELF files. The section headers are not there.
func (c *File) buildID(start uint64) string {
	s := c.segment(start)
	if s == nil {
		return ""
	}
	n := min(s.size-min(s.size, start-s.addr), maxHead)
	var head [64]byte
	if n < uint64(len(head)) || c.ReadMemory(head[:], start) != nil || string(head[:4]) != elf.ELFMAG {
		return ""
	}
	layoutOf(elf.Class(head[elf.EI_CLASS])).clearSections(head[:])
	f, err := elffile.New(&image{c: c, start: start, head: head}, int64(n))
	if err != nil {
		return ""
	}
	defer f.Close()
	return f.BuildID()
}

// buildIDs are the build-ids of the files that are mapped at addresses.
type buildIDs map[uint64]string

// of is File.buildID, once for each address.
func (ids buildIDs) of(c *File, start uint64) string {
	id, ok := ids[start]
	if !ok {
		id = c.buildID(start)
		ids[start] = id
	}
	return id
}

// image is the beginning of a mapped file in the core file's memory, with another header.
type image struct {
	c     *File
	start uint64
	head  [64]byte
}

// ReadAt implements io.ReaderAt.
func (m *image) ReadAt(p []byte, off int64) (int, error) {
	if err := m.c.ReadMemory(p, m.start+uint64(off)); err != nil {
		return 0, err
	}
	if off < int64(len(m.head)) {
		copy(p, m.head[off:])
	}
	return len(p), nil
}
