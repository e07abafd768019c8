// Package elfbuild builds ELF files for tests: sections and the segments that load them,
// symbol tables, notes. The files are well-formed, for both classes and byte orders. Tests
// damage them if necessary.
//
//	f := elfbuild.File{Machine: elf.EM_X86_64, Sections: []elfbuild.Section{
//		{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x1000, Data: code},
//	}}
//	image := f.Bytes()
package elfbuild

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
)

// pageSize is the modulus to which addresses and offsets of loaded sections are congruent.
const pageSize = 0x1000

// File describes an ELF file. The zero values of Class, Order and Type mean
// 64 bits, little-endian and ET_DYN.
type File struct {
	Class   elf.Class
	Order   binary.ByteOrder
	Type    elf.Type
	Machine elf.Machine
	Entry   uint64

	// Sections are written in this order. Every section with SHF_ALLOC gets its own PT_LOAD
	// segment.
	Sections []Section
	// Segments are additional program headers.
	Segments []Segment
	// Symbols are written to .symtab, DynSymbols to .dynsym. Local ones must come first.
	Symbols, DynSymbols []Symbol
	// NoSections omits the section headers, like sstrip.
	NoSections bool
}

// Section is a section and its contents.
type Section struct {
	Name    string
	Type    elf.SectionType
	Flags   elf.SectionFlag
	Addr    uint64
	Data    []byte
	Size    uint64 // for SHT_NOBITS sections; otherwise len(Data)
	Align   uint64 // 0 means 1
	Link    string // name of the linked section
	Info    uint32
	Entsize uint64
}

// Segment is a program header that covers a section.
type Segment struct {
	Type    elf.ProgType
	Flags   elf.ProgFlag
	Section string
	Memsz   uint64 // 0 means the section's size
	Align   uint64
}

// Symbol is a symbol table entry. Section is the index of its section in Sections, from 1; 0
// is undefined, elf.SHN_ABS absolute.
type Symbol struct {
	Name    string
	Value   uint64
	Size    uint64
	Type    elf.SymType
	Bind    elf.SymBind
	Section uint16
}

// writer appends fields in the file's class and byte order.
type writer struct {
	f *File
	b []byte
}

func (w *writer) order() binary.AppendByteOrder {
	if o, ok := w.f.Order.(binary.AppendByteOrder); ok {
		return o
	}
	return binary.LittleEndian
}

func (w *writer) wide() bool { return w.f.Class != elf.ELFCLASS32 }

func (w *writer) u16(v uint16) { w.b = w.order().AppendUint16(w.b, v) }
func (w *writer) u32(v uint32) { w.b = w.order().AppendUint32(w.b, v) }
func (w *writer) u64(v uint64) { w.b = w.order().AppendUint64(w.b, v) }

// word appends addresses or sizes of the file's class.
func (w *writer) word(vs ...uint64) {
	for _, v := range vs {
		if w.wide() {
			w.u64(v)
		} else {
			w.u32(uint32(v))
		}
	}
}

// Word returns an address in the file's class and byte order.
func (f *File) Word(v uint64) []byte {
	w := writer{f: f}
	w.word(v)
	return w.b
}

// Bytes returns the file.
func (f *File) Bytes() []byte {
	sections := f.allSections()
	ehsize, phsize, shsize := 64, 56, 64
	if f.Class == elf.ELFCLASS32 {
		ehsize, phsize, shsize = 52, 32, 40
	}
	segments := len(f.Segments)
	for _, s := range sections {
		if s.Flags&elf.SHF_ALLOC != 0 {
			segments++
		}
	}
	body := make([]byte, ehsize+phsize*segments)
	offsets := make([]uint64, len(sections))
	for i, s := range sections {
		at := uint64(len(body))
		if s.Flags&elf.SHF_ALLOC != 0 {
			at += (s.Addr - at) % pageSize
		} else if a := max(s.Align, 1); at%a != 0 {
			at += a - at%a
		}
		body = append(body, make([]byte, at-uint64(len(body)))...)
		offsets[i] = at
		if s.Type != elf.SHT_NOBITS {
			body = append(body, s.Data...)
		}
	}
	body = append(body, make([]byte, (8-len(body)%8)%8)...)
	shoff := len(body)
	copy(body, f.header(ehsize, phsize, shsize, segments, len(sections)+1, shoff))
	copy(body[ehsize:], f.segments(sections, offsets))
	if f.NoSections {
		return body
	}
	return append(body, f.sectionHeaders(sections, offsets, shsize)...)
}

// allSections returns Sections and the sections of the symbol tables and names.
func (f *File) allSections() []Section {
	s := slices.Clone(f.Sections)
	for _, t := range []struct {
		name, strings string
		typ           elf.SectionType
		symbols       []Symbol
	}{
		{".symtab", ".strtab", elf.SHT_SYMTAB, f.Symbols},
		{".dynsym", ".dynstr", elf.SHT_DYNSYM, f.DynSymbols},
	} {
		if t.symbols == nil {
			continue
		}
		table, strtab, locals := f.symbolTable(t.symbols)
		entsize := uint64(24)
		if f.Class == elf.ELFCLASS32 {
			entsize = 16
		}
		s = append(s, Section{
			Name: t.name, Type: t.typ, Data: table, Align: 8, Link: t.strings,
			Info: locals, Entsize: entsize,
		},
			Section{Name: t.strings, Type: elf.SHT_STRTAB, Data: strtab})
	}
	names := []byte{0}
	for _, sec := range s {
		names = append(append(names, sec.Name...), 0)
	}
	return append(s, Section{
		Name: ".shstrtab", Type: elf.SHT_STRTAB,
		Data: append(names, ".shstrtab\x00"...),
	})
}

func (f *File) symbolTable(symbols []Symbol) (table, strtab []byte, locals uint32) {
	w := writer{f: f}
	strtab = []byte{0}
	locals = 1
	for i, s := range append([]Symbol{{}}, symbols...) {
		name := uint32(0)
		if s.Name != "" {
			name = uint32(len(strtab))
			strtab = append(append(strtab, s.Name...), 0)
		}
		if i > 0 && s.Bind == elf.STB_LOCAL {
			locals = uint32(i) + 1
		}
		info := byte(s.Bind)<<4 | byte(s.Type)
		w.u32(name)
		if w.wide() {
			w.b = append(w.b, info, 0)
			w.u16(s.Section)
			w.word(s.Value, s.Size)
		} else {
			w.word(s.Value, s.Size)
			w.b = append(w.b, info, 0)
			w.u16(s.Section)
		}
	}
	return w.b, strtab, locals
}

func (f *File) header(ehsize, phsize, shsize, segments, sections, shoff int) []byte {
	w := writer{f: f}
	class, data, typ := f.Class, elf.ELFDATA2LSB, f.Type
	if class == elf.ELFCLASSNONE {
		class = elf.ELFCLASS64
	}
	if f.Order == binary.ByteOrder(binary.BigEndian) {
		data = elf.ELFDATA2MSB
	}
	if typ == elf.ET_NONE {
		typ = elf.ET_DYN
	}
	w.b = append(w.b, elf.ELFMAG...)
	w.b = append(w.b, byte(class), byte(data), byte(elf.EV_CURRENT), 0, 0, 0, 0, 0, 0, 0, 0, 0)
	w.u16(uint16(typ))
	w.u16(uint16(f.Machine))
	w.u32(uint32(elf.EV_CURRENT))
	names := sections - 1
	if f.NoSections {
		shoff, sections, names, shsize = 0, 0, 0, 0
	}
	w.word(f.Entry, uint64(ehsize), uint64(shoff))
	w.u32(0)
	for _, v := range []int{ehsize, phsize, segments, shsize, sections, names} {
		w.u16(uint16(v))
	}
	return w.b
}

func (s *Section) size() uint64 {
	if s.Type == elf.SHT_NOBITS {
		return s.Size
	}
	return uint64(len(s.Data))
}

func (f *File) segments(sections []Section, offsets []uint64) []byte {
	w := writer{f: f}
	for i := range sections {
		s := &sections[i]
		if s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		flags := elf.PF_R
		if s.Flags&elf.SHF_WRITE != 0 {
			flags |= elf.PF_W
		}
		if s.Flags&elf.SHF_EXECINSTR != 0 {
			flags |= elf.PF_X
		}
		w.program(elf.PT_LOAD, flags, offsets[i], s, s.size(), pageSize)
	}
	for _, g := range f.Segments {
		i := slices.IndexFunc(sections, func(s Section) bool { return s.Name == g.Section })
		memsz := g.Memsz
		if memsz == 0 {
			memsz = sections[i].size()
		}
		w.program(g.Type, g.Flags, offsets[i], &sections[i], memsz, max(g.Align, 1))
	}
	return w.b
}

func (w *writer) program(typ elf.ProgType, flags elf.ProgFlag, off uint64, s *Section, memsz,
	align uint64,
) {
	filesz := uint64(len(s.Data))
	w.u32(uint32(typ))
	if w.wide() {
		w.u32(uint32(flags))
	}
	w.word(off, s.Addr, s.Addr, filesz, memsz)
	if !w.wide() {
		w.u32(uint32(flags))
	}
	w.word(align)
}

func (f *File) sectionHeaders(sections []Section, offsets []uint64, shsize int) []byte {
	w := writer{f: f, b: make([]byte, shsize)}
	names := sections[len(sections)-1].Data
	at := uint32(1)
	for i := range sections {
		s := &sections[i]
		link := uint32(1 + slices.IndexFunc(sections, func(o Section) bool {
			return s.Link != "" && o.Name == s.Link
		}))
		w.u32(at)
		at += uint32(bytes.IndexByte(names[at:], 0)) + 1
		w.u32(uint32(s.Type))
		w.word(uint64(s.Flags), s.Addr, offsets[i], s.size())
		w.u32(link)
		w.u32(s.Info)
		w.word(max(s.Align, 1), s.Entsize)
	}
	return w.b
}
