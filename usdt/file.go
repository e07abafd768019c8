package usdt

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"sort"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elffile"
)

// Site is one place of a probe: a nop in the text of a file. It is plain data.
type Site struct {
	// Provider and Name identify the probe for tracers.
	Provider string
	Name     string
	// PC is the virtual address of the nop in the file's own numbering, corrected for
	// prelinked files. Offset is its position in the file, where a uprobe is attached.
	PC     uint64
	Offset uint64
	// Semaphore is the virtual address of the 16-bit counter that a tracer increments while
	// it is attached, 0 if the probe has none. SemaphoreOffset is its position in the file,
	// perf_event_open's ref_ctr_offset (Linux 4.20), with which no process need be named.
	Semaphore       uint64
	SemaphoreOffset uint64
	// Spec is the argument specification as in the note, and Args its arguments, at most
	// MaxArgs.
	Spec string
	Args []Arg
	// Nop is the kind of the instruction at PC:
	//
	//	nop        the machine's one-instruction nop, which <sys/sdt.h> emits. The kernel
	//	           emulates it, which is the fast path of uprobes.
	//	nop+nop5   a plain nop and a 5-byte one, which libbpf's usdt.h emitted for a while.
	//	           Attaching at PC+1 lets kernels with the uprobe system call (Linux 6.16)
	//	           turn the second into a call. Whether that is faster depends on the
	//	           machine, and it overwrites the red zone of C code.
	//	nop+nop10  a plain nop and a 10-byte one: libbpf's usdt.h since July 2026
	//	nop5       one 5-byte nop
	//
	// It is empty for any other instruction: the site may be corrupt, or, in a process's
	// memory, traced already.
	Nop string
	// Err is the error of this site, nil if there is none: a *SyntaxError in Spec (Args are
	// the arguments before it), or an *AddressError for a PC or Semaphore outside the loaded
	// parts of the file.
	Err error
}

// AddressError reports that an address of a note is not in the file: the note is corrupt, or
// the file is a separate debug file, whose text is in another file.
type AddressError struct {
	What string // "pc" or "semaphore"
	Addr uint64
}

// Error returns "pc 0x…: not in the loaded parts of the file".
func (e *AddressError) Error() string {
	return fmt.Sprintf("%s %#x: not in the loaded parts of the file", e.What, e.Addr)
}

// Probe has all sites of a probe in one file.
type Probe struct {
	// Provider and Name identify the probe for tracers.
	Provider string
	Name     string
	// Sites are its places, at least one, in the order of the file's notes.
	Sites []Site
}

// File is an ELF file whose probes can be read. Its methods are safe for concurrent use,
// except for Close, which must come last.
type File struct {
	// Machine, Class and Type are from the ELF header.
	Machine elf.Machine
	Class   elf.Class
	Type    elf.Type

	f *elffile.File
	// debugDir has separate debug files by build-id; if it is empty they are not used.
	debugDir string
}

// Open maps a file of this machine by path. Symbols of a stripped file are also looked up in
// its separate debug file, if /usr/lib/debug has it by build-id. The caller closes the File.
func Open(path string) (*File, error) {
	f, err := elffile.Open(path)
	if err != nil {
		return nil, err
	}
	opened := newFile(f)
	opened.debugDir = elffile.DebugDir
	return opened, nil
}

// NewFile reads an ELF file through r, which remains the caller's and must be readable until
// Close. The size is that of r's Size, Stat or Len method, which files and readers of the
// standard library have. Otherwise it is found by reading.
func NewFile(r io.ReaderAt) (*File, error) {
	size, err := sizeOf(r)
	if err != nil {
		return nil, err
	}
	f, err := elffile.New(r, size)
	if err != nil {
		return nil, err
	}
	return newFile(f), nil
}

func newFile(f *elffile.File) *File {
	return &File{Machine: f.Machine, Class: f.Class, Type: f.Type, f: f}
}

// Close unmaps the file. Sites and probes remain valid. It may be called again, and on a nil
// File.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	return f.f.Close()
}

// sizeOf returns the size of the data that r reads.
func sizeOf(r io.ReaderAt) (int64, error) {
	switch r := r.(type) {
	case interface{ Size() int64 }:
		return r.Size(), nil
	case interface{ Stat() (fs.FileInfo, error) }:
		st, err := r.Stat()
		if err != nil {
			return 0, err
		}
		return st.Size(), nil
	case interface{ Len() int }:
		return int64(r.Len()), nil
	}
	// The smallest offset at which there is no byte.
	var b [1]byte
	has := func(off int64) bool {
		n, _ := r.ReadAt(b[:], off)
		return n == 1
	}
	end := int64(1)
	for has(end - 1) {
		if end > 1<<60 {
			return 0, errors.New("file has no end")
		}
		end *= 2
	}
	return int64(sort.Search(int(end), func(i int) bool { return !has(int64(i)) })), nil
}

// noteReader makes the mapped file readable for package elfnotes.
type noteReader struct{ f *elffile.File }

func (r noteReader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= r.f.Size() {
		return 0, io.EOF
	}
	n := min(int64(len(p)), r.f.Size()-off)
	b, err := r.f.Bytes(uint64(off), uint64(n))
	if err != nil {
		return 0, err
	}
	copy(p, b)
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// A note has some 80 bytes, from which the number of notes is estimated; the estimate is
// bounded in case a section claims to be huge.
const (
	typicalNote = 80
	maxGuess    = 4096
	// maxSites is far above what real programs have: some thousands.
	maxSites = 1 << 14
)

// Sites returns every probe site of the file, in the order of its notes. Sites that are partly
// wrong are included, with their Err. The error is about notes that are no sites at all, and
// about sites beyond 16,384; the other sites are returned with it.
func (f *File) Sites() (sites []Site, err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	nf, err := elfnotes.NewFile(noteReader{f.f})
	if err != nil {
		return nil, err
	}
	var base uint64
	if s := f.f.Section(".stapsdt.base"); s != nil {
		base = s.Addr
	}
	var bad errorList
	if s := f.f.Section(".note.stapsdt"); s != nil {
		sites = make([]Site, 0, min(s.Size/typicalNote, maxGuess))
	}
	notes, errOf := nf.Notes()
	for n := range notes {
		if n.Kind() != "stapsdt" {
			continue
		}
		v, err := n.Decode()
		if err != nil {
			bad.add(err)
			continue
		}
		if len(sites) == maxSites {
			bad.add(fmt.Errorf("more than %d sites: %w", maxSites, elffile.ErrTooLarge))
			break
		}
		sites = append(sites, f.site(v.(elfnotes.Stapsdt), base))
	}
	bad.add(errOf())
	f.resolve(sites)
	return sites, errors.Join(bad...)
}

// errorList collects a bounded number of errors: a hostile file has many.
type errorList []error

func (l *errorList) add(err error) {
	const most = 16
	if err != nil && len(*l) < most {
		*l = append(*l, err)
	}
}

// site returns the Site of a note. base is the actual address of .stapsdt.base.
func (f *File) site(n elfnotes.Stapsdt, base uint64) Site {
	s := Site{Provider: n.Provider, Name: n.Name, PC: n.PC, Semaphore: n.Semaphore, Spec: n.Args}
	// prelink(8) moved the file after the note was written: systemtap's
	// UserSpaceProbeImplementation. The semaphore moved along.
	if base != 0 && n.Base != 0 {
		s.PC += base - n.Base
		if s.Semaphore != 0 {
			s.Semaphore += base - n.Base
		}
	}
	if f.Class == elf.ELFCLASS32 {
		s.PC, s.Semaphore = uint64(uint32(s.PC)), uint64(uint32(s.Semaphore))
	}
	var bad errorList
	var ok bool
	if s.Offset, ok = f.offset(s.PC, elf.PF_X); !ok {
		bad.add(&AddressError{"pc", s.PC})
	} else {
		s.Nop = f.nop(s.Offset)
	}
	if s.Semaphore != 0 {
		if s.SemaphoreOffset, ok = f.offset(s.Semaphore, elf.PF_W); !ok {
			bad.add(&AddressError{"semaphore", s.Semaphore})
		}
	}
	var err error
	s.Args, err = ParseArgs(f.Machine, s.Spec)
	bad.add(err)
	for i := range s.Args {
		s.Args[i].BigEndian = f.f.Order == binary.ByteOrder(binary.BigEndian)
	}
	s.Err = errors.Join(bad...)
	return s
}

// offset returns the file offset of an address by the loaded segments, which also exist in
// files without section headers, and have the semaphore's place if a tool removed or renamed
// its section. It prefers a segment with the given permission, since two may cover one page.
func (f *File) offset(addr uint64, flag elf.ProgFlag) (off uint64, ok bool) {
	for i := range f.f.Progs {
		p := &f.f.Progs[i]
		if p.Type != elf.PT_LOAD || addr < p.Vaddr || addr-p.Vaddr >= p.Filesz {
			continue
		}
		o := addr - p.Vaddr + p.Offset
		if o >= uint64(f.f.Size()) || f.noBits(addr) {
			continue // a separate debug file keeps the headers only
		}
		if p.Flags&flag != 0 {
			return o, true
		}
		if !ok {
			off, ok = o, true
		}
	}
	return off, ok
}

// noBits reports whether an address is in a section without contents.
func (f *File) noBits(addr uint64) bool {
	i := elffile.SectionAt(f.f, addr, true)
	return i >= 0 && f.f.Sections[i].Type == elf.SHT_NOBITS
}

// Probes returns the file's sites by probe, in the order of their first sites in the file. Its
// error is that of Sites.
func (f *File) Probes() ([]Probe, error) {
	sites, err := f.Sites()
	return Merge(sites), err
}

// Merge groups sites by provider and name, in the order of first appearance. The Sites of a
// probe with one site share the memory of sites.
func Merge(sites []Site) []Probe {
	type key struct{ provider, name string }
	index := make(map[key]int, len(sites))
	var probes []Probe
	for n, s := range sites {
		k := key{s.Provider, s.Name}
		i, ok := index[k]
		if !ok {
			index[k] = len(probes)
			// Most probes have one site: it stays where it is.
			probes = append(probes, Probe{Provider: s.Provider, Name: s.Name, Sites: sites[n : n+1 : n+1]})
			continue
		}
		probes[i].Sites = append(probes[i].Sites, s)
	}
	return probes
}
