package core

import (
	"debug/elf"
	"encoding/binary"
	"slices"
)

// layout are the sizes and the fields of structures that 32-bit and 64-bit processes have: of ELF files
// (elf.h), and of the dynamic loader (link.h).
type layout struct {
	class                      elf.Class
	word                       int // bytes of an address
	ehdr, phdr                 int // bytes of Elf_Ehdr, Elf_Phdr
	phoff, shoff, phnum, shnum int // in Elf_Ehdr
	offset, vaddr, size        int // in Elf_Phdr: p_offset, p_vaddr, p_filesz
}

var layout64 = layout{elf.ELFCLASS64, 8, 64, 56, 0x20, 0x28, 0x38, 0x3c, 8, 16, 32}

var layout32 = layout{elf.ELFCLASS32, 4, 52, 32, 0x1c, 0x20, 0x2c, 0x30, 4, 8, 16}

func layoutOf(c elf.Class) *layout {
	if c == elf.ELFCLASS32 {
		return &layout32
	}
	return &layout64
}

// layout returns that of the process.
func (c *File) layout() *layout {
	if c.Machine == elf.EM_386 {
		return &layout32
	}
	return &layout64
}

// at returns the address that structures have at an offset.
func (l *layout) at(b []byte, off int) uint64 {
	if l.word == 4 {
		return uint64(binary.LittleEndian.Uint32(b[off:]))
	}
	return binary.LittleEndian.Uint64(b[off:])
}

// clearSections makes the header of an image name no sections.
func (l *layout) clearSections(image []byte) { l.clear(image, l.shoff, l.shnum) }

// clear makes the header of an image name no table that has its offset and its count at these places.
func (l *layout) clear(image []byte, off, num int) {
	clear(image[off : off+l.word])
	clear(image[num : num+2])
}

// withoutTables returns the header of an ELF image, without tables.
func withoutTables(image []byte) []byte {
	image = slices.Clone(image[:min(len(image), layout64.ehdr)])
	if len(image) == layout64.ehdr {
		l := layoutOf(elf.Class(image[elf.EI_CLASS]))
		l.clearSections(image)
		l.clear(image, l.phoff, l.phnum)
	}
	return image
}
