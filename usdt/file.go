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
	// Provider and Name are what tracers call the probe by.
	Provider string
	Name     string
	// PC is the virtual address of the nop in the file's own numbering, after
	// the correction for prelinked files, and Offset its position in the file:
	// what a uprobe is attached to.
	PC     uint64
	Offset uint64
	// Semaphore is the virtual address of the 16-bit counter that a tracer
	// raises while it is attached, 0 if the probe has none, and
	// SemaphoreOffset its position in the file: what perf_event_open calls
	// ref_ctr_offset (Linux 4.20), so that no process must be named.
	Semaphore       uint64
	SemaphoreOffset uint64
	// Spec is the argument specification as the note has it, and Args what it
	// means: at most MaxArgs.
	Spec string
	Args []Arg
	// Nop says what instruction is at PC.
	Nop Nop
	// Err says what is wrong with this site, nil if nothing is: a
	// *SyntaxError in Spec (Args are those in front of it), an *AddressError
	// for a PC or Semaphore that lies in no loaded part of the file.
	Err error
}

// AddressError says that an address of a note doesn't lead into the file: the
// note is corrupt, or the file is a separate debug file, whose text is in
// another.
type AddressError struct {
	What string // "pc" or "semaphore"
	Addr uint64
}

// Error reads "pc 0x…: not in the loaded parts of the file".
func (e *AddressError) Error() string {
	return fmt.Sprintf("%s %#x: not in the loaded parts of the file", e.What, e.Addr)
}

// Probe is all sites of a probe in one file.
type Probe struct {
	// Provider and Name are what tracers call it by.
	Provider string
	Name     string
	// Sites are its places, at least one, in the order of the file's notes.
	Sites []Site
}

// ArgType is what is known about an argument over all sites of its probe.
type ArgType struct {
	// Size is the largest size in bytes, Signed and Float are set if they are
	// at any site.
	Size   int
	Signed bool
	Float  bool
	// Varies is set if sites differ in any of it, or have fewer arguments.
	Varies bool
	// Readable is set if the argument can be read at run time at every site
	// that has it.
	Readable bool
}

// ArgTypes merges the arguments of the probe's sites, whose sizes and signs
// differ more often than one would think: the compiler writes the type that
// the expression at the site has.
func (p *Probe) ArgTypes() []ArgType {
	var types []ArgType
	for i, s := range p.Sites {
		for j, a := range s.Args {
			if j == len(types) {
				types = append(types, ArgType{a.Size, a.Signed, a.Float, i > 0, true})
			}
			t := &types[j]
			if a.Size != t.Size || a.Signed != t.Signed || a.Float != t.Float {
				t.Varies = true
			}
			t.Size, t.Signed, t.Float = max(t.Size, a.Size), t.Signed || a.Signed, t.Float || a.Float
			t.Readable = t.Readable && a.Reason == ReasonNone
		}
		for j := len(s.Args); j < len(types); j++ {
			types[j].Varies = true
		}
	}
	return types
}

// File is an ELF file whose probes can be read. Its methods are safe for
// concurrent use, but for Close, which must come last.
type File struct {
	// Machine, Class and Type are from the ELF header.
	Machine elf.Machine
	Class   elf.Class
	Type    elf.Type

	f *elffile.File
	// debugDir has separate debug files by build-id; empty is not to look.
	debugDir string
}

// Open maps a file of the machine by path. Symbols of a stripped file are looked
// up in its separate debug file too, where /usr/lib/debug has it by build-id.
// Close it when done.
func Open(path string) (*File, error) {
	f, err := elffile.Open(path)
	if err != nil {
		return nil, err
	}
	opened := newFile(f)
	opened.debugDir = elffile.DebugDir
	return opened, nil
}

// NewFile reads an ELF file through r, which stays the caller's and must be
// readable until Close. The size is asked of r if it has a Size, Stat or Len
// method, as files and readers of the standard library do, and found by
// reading otherwise.
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

// Close unmaps the file. Sites and probes stay valid. It may be called more
// than once, and on nil.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	return f.f.Close()
}

// sizeOf finds the size of what r reads.
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

// noteReader lets package elfnotes read the mapped file.
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

// A note has some 80 bytes, which tells how many there are; a section that says
// to be huge is believed only so far.
const (
	typicalNote = 80
	maxGuess    = 4096
	// maxSites is far above what real programs have: some thousands.
	maxSites = 1 << 14
)

// Sites returns every probe site of the file, in the order of its notes. Sites
// that are partly wrong are among them, with their Err; what could not be read
// as a site at all is in the error, which doesn't keep the others from being
// returned: what goes beyond 16,384 sites as well.
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

// site makes a Site of a note. base is where .stapsdt.base is now.
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

// offset finds an address in the file by its loaded segments, which are there
// in files without section headers too, and states the semaphore's place where
// a tool removed or renamed its section. It prefers a segment with the given
// permission: two may cover one page.
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

// noBits reports whether an address lies in a section without contents.
func (f *File) noBits(addr uint64) bool {
	for i := range f.f.Sections {
		s := &f.f.Sections[i]
		if s.Flags&elf.SHF_ALLOC != 0 && s.Flags&elf.SHF_TLS == 0 && s.Contains(addr) {
			return s.Type == elf.SHT_NOBITS
		}
	}
	return false
}

// Probes returns the file's sites by probe, in the order in which their first
// sites stand in the file. Its error is that of Sites.
func (f *File) Probes() ([]Probe, error) {
	sites, err := f.Sites()
	return Merge(sites), err
}

// Merge groups sites by provider and name, in the order of first appearance. A
// probe of one site has it where it is in sites, which is borrowed.
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
