package elfnotes

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrNotELF is returned, wrapped, for input that doesn't begin with the ELF
// magic number.
var ErrNotELF = errors.New("not an ELF file")

// header is the part of an ELF header that leads to notes. It replaces the standard library's
// debug/elf, which refuses a file for any bad section, although the notes in its segments can
// still be read, and loads the names of all sections.
type header struct {
	class    elf.Class
	order    binary.ByteOrder
	machine  elf.Machine
	typ      elf.Type
	phoff    uint64
	phnum    uint64
	shoff    uint64
	shnum    uint64
	shstrndx uint64
}

// region is a part of a file that contains notes.
type region struct {
	where  string
	offset uint64
	size   uint64
	align  int
	index  int // among the note headers of its table
}

// section is the part of a section header that is used here.
type section struct {
	name, typ    uint32
	flags        uint64
	offset, size uint64
	link, info   uint32
	align        uint64
}

func parseHeader(r io.ReaderAt) (*header, error) {
	var b [64]byte
	n, err := r.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if n < 4 || !bytes.Equal(b[:4], []byte(elf.ELFMAG)) {
		return nil, ErrNotELF
	}
	h := &header{class: elf.Class(b[elf.EI_CLASS])}
	switch elf.Data(b[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		h.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		h.order = binary.BigEndian
	default:
		return nil, &FormatError{
			Where: "header", Offset: elf.EI_DATA,
			Msg: fmt.Sprintf("unknown byte order %d", b[elf.EI_DATA]),
		}
	}
	want := 64
	switch h.class {
	case elf.ELFCLASS32:
		want = 52
	case elf.ELFCLASS64:
	default:
		return nil, &FormatError{
			Where: "header", Offset: elf.EI_CLASS,
			Msg: fmt.Sprintf("unknown class %d", b[elf.EI_CLASS]),
		}
	}
	if n < want {
		return nil, &FormatError{Where: "header", Msg: "ELF header is cut off", Err: io.ErrUnexpectedEOF}
	}
	h.parseFields(b[:])
	if err := h.extend(r); err != nil {
		return nil, err
	}
	return h, nil
}

// parseFields reads Elf32_Ehdr or Elf64_Ehdr.
func (h *header) parseFields(b []byte) {
	o := h.order
	h.typ = elf.Type(o.Uint16(b[16:]))
	h.machine = elf.Machine(o.Uint16(b[18:]))
	tail := b[42:] // e_phentsize
	if h.class == elf.ELFCLASS64 {
		h.phoff, h.shoff = o.Uint64(b[32:]), o.Uint64(b[40:])
		tail = b[54:]
	} else {
		h.phoff, h.shoff = uint64(o.Uint32(b[28:])), uint64(o.Uint32(b[32:]))
	}
	h.phnum = uint64(o.Uint16(tail[2:]))
	h.shnum = uint64(o.Uint16(tail[6:]))
	h.shstrndx = uint64(o.Uint16(tail[8:]))
}

// extend applies the gABI's extended numbering, which stores counts that don't fit 16 bits in
// section 0: for example the number of segments in a core file of a process with more than
// 65,534 mappings.
func (h *header) extend(r io.ReaderAt) error {
	const pnXnum = 0xffff
	if h.shoff == 0 || (h.phnum != pnXnum && h.shnum != 0 && h.shstrndx != uint64(elf.SHN_XINDEX)) {
		return nil
	}
	var s *section
	err := h.table(r, h.shoff, 1, h.sectionSize(), func(b []byte) {
		sec := h.section(b)
		s = &sec
	})
	if s == nil {
		if h.phnum == pnXnum {
			return &FormatError{
				Where: "header", Offset: int64(h.shoff),
				Msg: "section 0 with the number of segments is missing", Err: err,
			}
		}
		return nil // no sections after all; the segments remain
	}
	if h.shnum == 0 {
		h.shnum = s.size
	}
	if h.shstrndx == uint64(elf.SHN_XINDEX) {
		h.shstrndx = uint64(s.link)
	}
	if h.phnum == pnXnum {
		h.phnum = uint64(s.info)
	}
	return nil
}

func (h *header) sectionSize() int {
	if h.class == elf.ELFCLASS64 {
		return 64
	}
	return 40
}

func (h *header) segmentSize() int {
	if h.class == elf.ELFCLASS64 {
		return 56
	}
	return 32
}

// table calls visit with every entry of a header table. It reads piece by
// piece, so that a wrong count costs no memory.
func (h *header) table(r io.ReaderAt, off, count uint64, size int, visit func([]byte)) error {
	if off > 1<<62 || count > 1<<40 {
		return &FormatError{
			Where: "header", Offset: int64(off),
			Msg: "header table lies outside any file",
		}
	}
	const batch = 64
	buf := make([]byte, int(min(count, batch))*size)
	for count > 0 {
		want := int(min(count, batch)) * size
		n, err := r.ReadAt(buf[:want], int64(off))
		for b := buf[:n]; len(b) >= size; b = b[size:] {
			visit(b[:size])
		}
		if n < want {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return &FormatError{
				Where: "header", Offset: int64(off), Msg: "header table is cut off",
				Err: err,
			}
		}
		off += uint64(want)
		count -= uint64(want / size)
	}
	return nil
}

func (h *header) section(b []byte) section {
	o := h.order
	if h.class == elf.ELFCLASS64 {
		return section{
			name: o.Uint32(b), typ: o.Uint32(b[4:]), flags: o.Uint64(b[8:]),
			offset: o.Uint64(b[24:]), size: o.Uint64(b[32:]),
			link: o.Uint32(b[40:]), info: o.Uint32(b[44:]), align: o.Uint64(b[48:]),
		}
	}
	return section{
		name: o.Uint32(b), typ: o.Uint32(b[4:]), flags: uint64(o.Uint32(b[8:])),
		offset: uint64(o.Uint32(b[16:])), size: uint64(o.Uint32(b[20:])),
		link: o.Uint32(b[24:]), info: o.Uint32(b[28:]), align: uint64(o.Uint32(b[32:])),
	}
}

// sections returns the regions of the note sections.
func (h *header) sections(r io.ReaderAt) ([]region, error) {
	if h.shoff == 0 {
		return nil, nil
	}
	var notes []section
	var names section
	var index uint64
	err := h.table(r, h.shoff, h.shnum, h.sectionSize(), func(b []byte) {
		// The type alone decides for nearly all of them.
		isNames := index == h.shstrndx && index != 0
		index++
		if !isNames && elf.SectionType(h.order.Uint32(b[4:])) != elf.SHT_NOTE {
			return
		}
		s := h.section(b)
		if isNames {
			names = s
			return
		}
		if s.size > 0 && elf.SectionFlag(s.flags)&elf.SHF_COMPRESSED == 0 {
			notes = append(notes, s)
		}
	})
	regions := make([]region, len(notes))
	for i, s := range notes {
		regions[i] = region{
			where: sectionName(r, names, s.name), offset: s.offset, size: s.size,
			align: int(s.align & 0xff), index: i,
		}
	}
	return regions, err
}

// sectionName reads one name of the section name table. A section without one is called
// "section", so that Where is never empty.
func sectionName(r io.ReaderAt, table section, name uint32) string {
	const none = "section"
	if uint64(name) >= table.size || table.offset > 1<<62 {
		return none
	}
	var b [64]byte // longer names are cut off
	n, _ := r.ReadAt(b[:min(64, table.size-uint64(name))], int64(table.offset+uint64(name)))
	if s := cString(b[:n]); s != "" {
		return s
	}
	return none
}

// segments returns the regions of the note segments.
func (h *header) segments(r io.ReaderAt) ([]region, error) {
	if h.phoff == 0 {
		return nil, nil
	}
	var regions []region
	err := h.table(r, h.phoff, h.phnum, h.segmentSize(), func(b []byte) {
		o := h.order
		if elf.ProgType(o.Uint32(b)) != elf.PT_NOTE {
			return
		}
		g := region{where: "PT_NOTE", index: len(regions)}
		if h.class == elf.ELFCLASS64 {
			g.offset, g.size, g.align = o.Uint64(b[8:]), o.Uint64(b[32:]), int(o.Uint64(b[48:])&0xff)
		} else {
			g.offset, g.size, g.align = uint64(o.Uint32(b[4:])), uint64(o.Uint32(b[16:])),
				int(o.Uint32(b[28:])&0xff)
		}
		if g.size > 0 {
			regions = append(regions, g)
		}
	})
	return regions, err
}
