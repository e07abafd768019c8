package main

import (
	"debug/elf"
	"encoding/binary"
	"errors"
)

// newSection is a section to append: one with data of its own, or a name for existing
// contents of the file.
type newSection struct {
	name                      string
	typ                       elf.SectionType
	flags                     elf.SectionFlag
	addr, offset, size, align uint64
	data                      []byte
}

// Fields of Elf64_Ehdr and Elf64_Shdr.
const (
	ehShoff, ehShentsize, ehShnum, ehShstrndx = 40, 58, 60, 62
	shSize                                    = 64
)

// appendSections appends to the file: the data of the sections, a longer table of section
// names, and a longer section header table.
func (p *program) appendSections(sections []newSection) ([]byte, error) {
	le := binary.LittleEndian
	b := p.b
	shoff, shnum, names := le.Uint64(b[ehShoff:]), uint64(le.Uint16(b[ehShnum:])),
		uint64(le.Uint16(b[ehShstrndx:]))
	if le.Uint16(b[ehShentsize:]) != shSize || shnum == 0 || names == 0 || names >= shnum ||
		shnum+uint64(len(sections)) >= uint64(elf.SHN_LORESERVE) ||
		shoff > uint64(len(b)) || shnum*shSize > uint64(len(b))-shoff {
		return nil, errors.New("section headers are not as the Go linker writes them")
	}
	headers := append([]byte(nil), b[shoff:shoff+shnum*shSize]...)
	table, err := p.f.Data(&p.f.Sections[names])
	if err != nil {
		return nil, err
	}
	table = append([]byte(nil), table...)
	align := func() { b = append(b, make([]byte, -len(b)&7)...) }
	for _, s := range sections {
		if s.data != nil {
			align()
			s.offset, s.size = uint64(len(b)), uint64(len(s.data))
			b = append(b, s.data...)
		}
		headers = le.AppendUint32(headers, uint32(len(table)))
		headers = le.AppendUint32(headers, uint32(s.typ))
		for _, v := range []uint64{uint64(s.flags), s.addr, s.offset, s.size, 0, s.align, 0} {
			headers = le.AppendUint64(headers, v)
		}
		table = append(table, s.name+"\x00"...)
	}
	nameHeader := headers[names*shSize:]
	le.PutUint64(nameHeader[24:], uint64(len(b)))
	le.PutUint64(nameHeader[32:], uint64(len(table)))
	b = append(b, table...)
	align()
	le.PutUint64(b[ehShoff:], uint64(len(b)))
	le.PutUint16(b[ehShnum:], uint16(shnum)+uint16(len(sections)))
	return append(b, headers...), nil
}
