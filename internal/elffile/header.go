package elffile

import (
	"debug/elf"
	"encoding/binary"
	"runtime/debug"
)

// parse reads the ELF, program and section headers: System V ABI, chapters 4 and 5.
func (f *File) parse() (err error) {
	defer Catch(debug.SetPanicOnFault(true), &err)
	id, err := f.Bytes(0, 16)
	if err != nil || string(id[:4]) != elf.ELFMAG {
		return bad(0, "not an ELF file")
	}
	f.Class = elf.Class(id[elf.EI_CLASS])
	switch elf.Data(id[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		f.Order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		f.Order = binary.BigEndian
	default:
		return bad(elf.EI_DATA, "unknown byte order %d", id[elf.EI_DATA])
	}
	ehsize := uint64(64)
	switch f.Class {
	case elf.ELFCLASS64:
	case elf.ELFCLASS32:
		ehsize = 52
	default:
		return bad(elf.EI_CLASS, "unknown class %d", id[elf.EI_CLASS])
	}
	h, err := f.Bytes(0, ehsize)
	if err != nil {
		return bad(0, "the header is cut off")
	}
	o := f.Order
	f.Type, f.Machine = elf.Type(o.Uint16(h[16:])), elf.Machine(o.Uint16(h[18:]))
	var t tables
	if f.Class == elf.ELFCLASS64 {
		f.Entry = o.Uint64(h[24:])
		t = tables{
			o.Uint64(h[32:]), o.Uint64(h[40:]),
			uint64(o.Uint16(h[54:])), uint64(o.Uint16(h[56:])),
			uint64(o.Uint16(h[58:])), uint64(o.Uint16(h[60:])), uint64(o.Uint16(h[62:])),
		}
	} else {
		f.Entry = uint64(o.Uint32(h[24:]))
		t = tables{
			uint64(o.Uint32(h[28:])), uint64(o.Uint32(h[32:])),
			uint64(o.Uint16(h[42:])), uint64(o.Uint16(h[44:])),
			uint64(o.Uint16(h[46:])), uint64(o.Uint16(h[48:])), uint64(o.Uint16(h[50:])),
		}
	}
	if err := f.parseSections(&t); err != nil {
		return err
	}
	if err := f.parseProgs(&t); err != nil {
		return err
	}
	if len(f.Sections) == 0 {
		f.sectionsFromSegments()
	}
	f.layOut()
	return nil
}

// tables contains the positions and sizes of the tables, from the header.
type tables struct {
	phoff, shoff             uint64
	phentsize, phnum         uint64
	shentsize, shnum, shstrn uint64
}

// tableRoom returns the size limit of a table of headers: what the file takes up, and a little
// more for files that a file system compresses.
func tableRoom(f *File) uint64 { return uint64(f.stored) + leastRoom }

func (f *File) shsize() uint64 {
	if f.Class == elf.ELFCLASS64 {
		return 64
	}
	return 40
}

func (f *File) section(b []byte) (s Section, name uint32) {
	o := f.Order
	name, s.Type = o.Uint32(b), elf.SectionType(o.Uint32(b[4:]))
	if f.Class == elf.ELFCLASS64 {
		s.Flags, s.Addr = elf.SectionFlag(o.Uint64(b[8:])), o.Uint64(b[16:])
		s.Offset, s.Size = o.Uint64(b[24:]), o.Uint64(b[32:])
		s.Link, s.Info = o.Uint32(b[40:]), o.Uint32(b[44:])
		s.Addralign, s.Entsize = o.Uint64(b[48:]), o.Uint64(b[56:])
		return s, name
	}
	s.Flags, s.Addr = elf.SectionFlag(o.Uint32(b[8:])), uint64(o.Uint32(b[12:]))
	s.Offset, s.Size = uint64(o.Uint32(b[16:])), uint64(o.Uint32(b[20:]))
	s.Link, s.Info = o.Uint32(b[24:]), o.Uint32(b[28:])
	s.Addralign, s.Entsize = uint64(o.Uint32(b[32:])), uint64(o.Uint32(b[36:]))
	return s, name
}

// parseSections reads the section headers. A file with a section table outside of it (stripped
// by hand, truncated, an image read from memory) is read without sections, because its
// segments may be enough.
func (f *File) parseSections(t *tables) error {
	size := f.shsize()
	if t.shoff == 0 || t.shentsize < size {
		return nil
	}
	first, err := f.Bytes(t.shoff, size)
	if err != nil {
		return nil
	}
	zero, _ := f.section(first)
	// Counts that do not fit 16 bits are in section 0: gABI, "Section Header".
	if t.shnum == 0 {
		t.shnum = zero.Size
	}
	if t.shstrn == uint64(elf.SHN_XINDEX) {
		t.shstrn = uint64(zero.Link)
	}
	if t.phnum == 0xffff { // PN_XNUM
		t.phnum = uint64(zero.Info)
	}
	most := uint64(maxSections)
	if f.Type != elf.ET_REL {
		most = maxLinkedSections
	}
	if t.shnum > most {
		return bad(t.shoff, "%d sections are more than %d", t.shnum, most)
	}
	if t.shnum*t.shentsize > tableRoom(f) {
		return nil // such a large table consists of holes
	}
	b, err := f.Bytes(t.shoff, t.shnum*t.shentsize)
	if err != nil {
		return nil
	}
	f.Sections = make([]Section, t.shnum)
	names := make([]uint32, t.shnum)
	for i := range f.Sections {
		f.Sections[i], names[i] = f.section(b[uint64(i)*t.shentsize:])
	}
	if t.shstrn >= t.shnum {
		return nil
	}
	strs, err := f.Data(&f.Sections[t.shstrn])
	if err != nil {
		return nil // no names, but the types are still useful
	}
	total := 0
	for i := range f.Sections {
		name := String(strs, uint64(names[i]))
		// Names may overlap without limit. A table full of long ones must not take more memory
		// than the file.
		if total += len(name); int64(total) > f.stored {
			break
		}
		f.Sections[i].Name = string(name)
	}
	return nil
}

func (f *File) parseProgs(t *tables) error {
	size := uint64(56)
	if f.Class == elf.ELFCLASS32 {
		size = 32
	}
	if t.phoff == 0 || t.phnum == 0 || t.phentsize < size {
		return nil
	}
	most := uint64(maxProgs)
	if f.Type == elf.ET_CORE {
		most = maxCoreProgs
	}
	if t.phnum > most {
		return bad(t.phoff, "%d program headers are more than %d", t.phnum, most)
	}
	if n := t.phnum * t.phentsize; n > tableRoom(f) {
		return bad(t.phoff, "%d bytes of program headers: %v", n, ErrTooLarge)
	}
	b, err := f.Bytes(t.phoff, t.phnum*t.phentsize)
	if err != nil {
		return bad(t.phoff, "the program headers are cut off")
	}
	f.Progs = make([]Prog, t.phnum)
	for i := range f.Progs {
		f.Progs[i] = f.prog(b[uint64(i)*t.phentsize:])
	}
	return nil
}

func (f *File) prog(b []byte) Prog {
	o := f.Order
	if f.Class == elf.ELFCLASS64 {
		return Prog{
			elf.ProgType(o.Uint32(b)), elf.ProgFlag(o.Uint32(b[4:])), o.Uint64(b[8:]),
			o.Uint64(b[16:]), o.Uint64(b[32:]), o.Uint64(b[40:]), o.Uint64(b[48:]),
		}
	}
	return Prog{
		elf.ProgType(o.Uint32(b)), elf.ProgFlag(o.Uint32(b[24:])), uint64(o.Uint32(b[4:])),
		uint64(o.Uint32(b[8:])), uint64(o.Uint32(b[16:])), uint64(o.Uint32(b[20:])),
		uint64(o.Uint32(b[28:])),
	}
}
