package elffile

import (
	"debug/elf"
	"sort"
)

// FDE returns the bounds of the last function that begins at or below an address, from the
// linker's index of .eh_frame for unwinders (LSB core, ".eh_frame_hdr", in the form that all
// linkers write). ok is false if there is none.
func (f *File) FDE(addr uint64) (start, end uint64, ok bool) {
	table, base, ok := f.frameTable()
	if !ok {
		return 0, 0, false
	}
	// An entry has a function's address and that of its FDE, both relative to the section's
	// start.
	at := func(i int) (loc, fde uint64) {
		return base + sign32(f.Order.Uint32(table[8*i:])), base + sign32(f.Order.Uint32(table[8*i+4:]))
	}
	i := sort.Search(len(table)/8, func(i int) bool { loc, _ := at(i); return loc > addr })
	if i == 0 {
		return 0, 0, false
	}
	start, fde := at(i - 1)
	n, ok := f.frameRange(fde)
	return start, start + n, ok && start <= addr && start+n >= start
}

func sign32(v uint32) uint64 { return uint64(int64(int32(v))) }

// frameTable returns the search table of .eh_frame_hdr and the address of that section.
func (f *File) frameTable() (table []byte, base uint64, ok bool) {
	const header, relative4, absolute4, table4 = 12, 0x1b, 0x03, 0x3b
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PT_GNU_EH_FRAME {
			continue
		}
		b, err := f.Bytes(p.Offset, p.Filesz)
		if err != nil || len(b) < header || b[0] != 1 || b[1] != relative4 || b[2] != absolute4 ||
			b[3] != table4 {
			return nil, 0, false
		}
		n := min(uint64(f.Order.Uint32(b[8:])), uint64(len(b)-header)/8)
		return b[header : header+8*n], p.Vaddr, n > 0
	}
	return nil, 0, false
}

// frameRange returns the number of bytes of code that the FDE at an address covers.
func (f *File) frameRange(fde uint64) (n uint64, ok bool) {
	const fixed = 8 // the length, and the offset of the CIE
	b := f.at(fde, fixed+16)
	if len(b) < fixed {
		return 0, false
	}
	size := f.frameEncoding(fde + 4 - uint64(f.Order.Uint32(b[4:])))
	if b = b[fixed:]; size == 0 || len(b) < 2*size {
		return 0, false
	}
	if size == 4 {
		return uint64(f.Order.Uint32(b[4:])), true
	}
	return f.Order.Uint64(b[8:]), true
}

// at returns up to n bytes at a virtual address.
func (f *File) at(addr, n uint64) []byte {
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			b, err := f.Bytes(p.Offset+addr-p.Vaddr, min(n, p.Filesz-(addr-p.Vaddr)))
			if err != nil {
				return nil
			}
			return b
		}
	}
	return nil
}

// frameEncoding returns the size of addresses in the FDEs of the CIE at an address. It is 0 if
// there is no CIE or the size is not fixed.
func (f *File) frameEncoding(cie uint64) int {
	const maxCIE = 64
	b := f.at(cie, maxCIE)
	if len(b) < 10 || f.Order.Uint32(b[4:]) != 0 {
		return 0
	}
	version := b[8]
	b = b[9:]
	letters := String(b, 0)
	if len(letters) == 0 || letters[0] != 'z' {
		return 8 // no augmentation: absolute addresses
	}
	b = b[min(len(letters)+1, len(b)):]
	// These are the alignment of code and data, the return address's register, and the length
	// of the augmentation.
	for i := range 4 {
		if i == 2 && version == 1 {
			b = b[min(1, len(b)):]
			continue
		}
		b = afterVarint(b)
	}
	for _, c := range letters[1:] {
		if len(b) == 0 {
			return 0
		}
		switch c {
		case 'R':
			return encodedSize(b[0])
		case 'L':
			b = b[1:]
		case 'P':
			b = b[min(1+encodedSize(b[0]), len(b)):]
		}
	}
	return 8
}

// encodedSize returns the size of a pointer in an encoding (DW_EH_PE_*), 0 if it is not fixed.
func encodedSize(enc byte) int {
	switch enc & 0x0f {
	case 0x03, 0x0b:
		return 4
	case 0x00, 0x04, 0x0c:
		return 8
	}
	return 0
}

func afterVarint(b []byte) []byte {
	for i, c := range b {
		if c < 0x80 {
			return b[i+1:]
		}
	}
	return nil
}
