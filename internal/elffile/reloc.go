package elffile

import (
	"debug/elf"
	"iter"
)

// Reloc is an entry of a relocation table.
type Reloc struct {
	Offset uint64 // where it applies: an address, in an object file an offset in the section
	Sym    uint32 // number of the symbol in the table that the section links to
	Type   uint32 // of the machine's own numbering
	Addend int64  // 0 in tables of type SHT_REL, which keep it in place
}

// Relocs yields the entries of a section of type SHT_REL or SHT_RELA; none if it
// is another or cannot be read. The rule of Bytes holds.
func (f *File) Relocs(s *Section) iter.Seq[Reloc] {
	return func(yield func(Reloc) bool) {
		b, err := f.Data(s)
		if err != nil || s.Type != elf.SHT_REL && s.Type != elf.SHT_RELA {
			return
		}
		rela, o := s.Type == elf.SHT_RELA, f.Order
		if f.Class == elf.ELFCLASS64 {
			size := 16
			if rela {
				size = 24
			}
			for ; len(b) >= size; b = b[size:] {
				info := o.Uint64(b[8:])
				r := Reloc{Offset: o.Uint64(b), Sym: uint32(info >> 32), Type: uint32(info)}
				if rela {
					r.Addend = int64(o.Uint64(b[16:]))
				}
				if !yield(r) {
					return
				}
			}
			return
		}
		size := 8
		if rela {
			size = 12
		}
		for ; len(b) >= size; b = b[size:] {
			info := o.Uint32(b[4:])
			r := Reloc{Offset: uint64(o.Uint32(b)), Sym: info >> 8, Type: info & 0xff}
			if rela {
				r.Addend = int64(int32(o.Uint32(b[8:])))
			}
			if !yield(r) {
				return
			}
		}
	}
}
