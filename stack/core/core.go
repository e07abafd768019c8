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
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	// Machine is the process's architecture.
	Machine elf.Machine
	// PID is the process, Comm its name; 0 and empty if the file does not have them.
	PID  int
	Comm string
	// Threads are the threads, the one that crashed first.
	Threads []Thread

	r      io.ReaderAt
	closer io.Closer
	notes  []byte
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

// maxCoreSize bounds what a compressed core file may expand to.
const maxCoreSize = 1 << 30

// Open opens a core file of the kernel, of gcore or of Write. It may be compressed (gzip,
// zstd, xz, lz4); then it is held in memory, up to 1 GiB. The caller must close it.
func Open(path string) (*File, error) {
	f, err := procfs.Open(path)
	if err != nil {
		return nil, err
	}
	var magic [8]byte
	_, _ = f.ReadAt(magic[:], 0)
	if format := decompress.Detect(magic[:]); format != decompress.None {
		defer f.Close()
		data, err := io.ReadAll(f)
		if err == nil {
			data, err = decompress.All(format, data, maxCoreSize)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return named(path, bytes.NewReader(data), int64(len(data)))
	}
	st, err := f.Stat()
	if err == nil {
		var c *File
		if c, err = named(path, f, st.Size()); err == nil {
			c.closer = f
			return c, nil
		}
	}
	f.Close()
	return nil, err
}

func named(path string, r io.ReaderAt, size int64) (*File, error) {
	c, err := New(r, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// New reads a core file of the given size through r, which must stay readable for as long
// as the File is used.
func New(r io.ReaderAt, size int64) (*File, error) {
	f, err := elffile.New(r, size)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Type != elf.ET_CORE {
		return nil, fmt.Errorf("not a core file but %v", f.Type)
	}
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 && f.Machine != elf.EM_AARCH64 {
		return nil, fmt.Errorf("core file of %v: %w", f.Machine, errors.ErrUnsupported)
	}
	c := &File{Machine: f.Machine, r: r}
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_LOAD:
			s := coreSegment{addr: p.Vaddr, memsz: p.Memsz, off: p.Offset, flags: p.Flags}
			if p.Offset < uint64(size) { // a core file may have been cut short
				s.size = min(p.Filesz, p.Memsz, uint64(size)-p.Offset)
			}
			if s.end() < s.addr {
				return nil, fmt.Errorf("core file: segment at %#x is too long", s.addr)
			}
			c.segs = append(c.segs, s)
		case elf.PT_NOTE:
			if err := c.readNotes(f, p); err != nil {
				return nil, err
			}
		}
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

// maxCoreNotes is some 60,000 threads.
const maxCoreNotes = 256 << 20

func (c *File) readNotes(f *elffile.File, p elffile.Prog) error {
	if p.Filesz > maxCoreNotes {
		return fmt.Errorf("core file: %d bytes of notes", p.Filesz)
	}
	b := make([]byte, min(p.Filesz, uint64(f.Size())))
	if n, err := c.r.ReadAt(b, int64(p.Offset)); n < len(b) {
		return fmt.Errorf("core file: notes: %w", err)
	}
	c.notes = b
	const prstatus = 336 // a thread's note at least
	c.Threads = slices.Grow(c.Threads, len(b)/prstatus)
	notes, errOf := elfnotes.All(b, f.Order, int(p.Align))
	for n := range notes {
		c.take(n)
	}
	return errOf()
}

// take keeps what a note says.
func (c *File) take(n elfnotes.Note) {
	n.Class, n.Machine = elf.ELFCLASS64, c.Machine
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
	tables := make(map[string]*coreFile)
	for i := range c.files {
		f := &c.files[i]
		if !c.MayBeCode(f.Start) {
			continue
		}
		m := stack.Module{Start: f.Start, End: f.End, Offset: f.Offset, Name: f.Path}
		code, err := c.loadModule(root, tables, f, &m, list)
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
	return stack.NewModules(list...), errors.Join(errs...)
}

// coreFile is a file that the process had mapped.
type coreFile struct {
	cfi  *stack.FileCFI
	err  error
	said bool // the caller has the error
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
func (c *File) loadModule(root fs.FS, tables map[string]*coreFile, f *elfnotes.Mapping,
	m *stack.Module, before []stack.Module,
) (bool, error) {
	t := tables[f.Path]
	if t == nil {
		t = &coreFile{}
		t.cfi, t.err = stack.ReadFileCFI(root, f.Path, c.buildID(f.Path))
		tables[f.Path] = t
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

// buildID finds a file's build-id in the core file, where the kernel keeps the
// first page of ELF files.
func (c *File) buildID(path string) string {
	for _, m := range c.files {
		if m.Path != path || m.Offset != 0 {
			continue
		}
		s := c.segment(m.Start)
		if s == nil {
			return ""
		}
		n := min(s.size-min(s.size, m.Start-s.addr), 1<<16)
		image := make([]byte, n)
		if c.ReadMemory(image, m.Start) != nil {
			return ""
		}
		return imageBuildID(image)
	}
	return ""
}

// imageBuildID looks for the note in the first pages of an ELF file, whose
// section headers are not there.
func imageBuildID(image []byte) string {
	f, err := elffile.NewBytes(withoutSections(image))
	if err != nil {
		return ""
	}
	defer f.Close()
	return f.BuildID()
}

// withoutSections returns an ELF64 image whose header names no sections.
func withoutSections(image []byte) []byte {
	const shoff, shnum = 0x28, 0x3c
	if len(image) < 64 {
		return image
	}
	image = slices.Clone(image)
	clear(image[shoff : shoff+8])
	clear(image[shnum : shnum+4])
	return image
}
