package elffile

import (
	"bytes"
	"debug/elf"
	"iter"
)

// Reloc is an entry of a relocation table.
type Reloc struct {
	Offset uint64 // where it applies: an address, or in object files an offset in the section
	Sym    uint32 // number of the symbol in the section's linked table
	Type   uint32 // in the machine's numbering
	Addend int64  // 0 in tables of type SHT_REL: their addends are in the relocated bytes
}

// Relocs returns an iterator over the entries of a section of type SHT_REL or SHT_RELA, over
// none if it is another section or cannot be read. Like the result of Bytes, it may only be
// used in a function that defers Catch.
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

// relocOp is the effect of a relocation in debug sections: it sets size bytes to the symbol's
// address plus the addend, or adds or subtracts that.
type relocOp struct {
	size int
	sign int // 0: set
}

// relocOps contains the relocations that compilers use in debug sections, including those of
// thread-local variables, although their locations are not used. The numbers are those of each
// architecture's psABI.
var relocOps = map[elf.Machine]map[uint32]relocOp{
	elf.EM_X86_64:  {1: {8, 0}, 10: {4, 0}, 11: {4, 0}, 17: {8, 0}, 21: {4, 0}},
	elf.EM_386:     {1: {4, 0}, 32: {4, 0}},
	elf.EM_AARCH64: {257: {8, 0}, 258: {4, 0}, 1029: {8, 0}},
	elf.EM_ARM:     {2: {4, 0}, 106: {4, 0}},
	elf.EM_PPC64:   {1: {4, 0}, 38: {8, 0}, 78: {8, 0}},
	elf.EM_S390:    {4: {4, 0}, 22: {8, 0}, 52: {4, 0}, 53: {8, 0}},
	elf.EM_RISCV: {
		1: {4, 0}, 2: {8, 0}, 9: {8, 0}, 54: {1, 0}, 55: {2, 0}, 56: {4, 0},
		33: {1, 1}, 34: {2, 1}, 35: {4, 1}, 36: {8, 1}, 37: {1, -1}, 38: {2, -1}, 39: {4, -1},
		40: {8, -1},
	},
}

// layOut assigns addresses to the sections of an object file, which has none before linking:
// the file offsets of their bytes.
func (f *File) layOut() {
	if f.Type != elf.ET_REL || len(f.Progs) > 0 {
		return
	}
	for i := range f.Sections {
		if f.Sections[i].Flags&elf.SHF_ALLOC != 0 && f.Sections[i].Addr != 0 {
			return // they have addresses already
		}
	}
	for i := range f.Sections {
		if s := &f.Sections[i]; s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			s.Addr = s.Offset
		}
	}
}

// LayOutAs assigns the addresses in the object file to the sections of its separate debug
// file, which has other offsets. It must be called before other methods.
func (f *File) LayOutAs(object *File) {
	if f.Type != elf.ET_REL || object.Type != elf.ET_REL || len(f.Sections) < len(object.Sections) {
		return
	}
	for i := range object.Sections {
		if f.Sections[i].Flags&elf.SHF_ALLOC != 0 && f.Sections[i].Name == object.Sections[i].Name {
			f.Sections[i].Addr = object.Sections[i].Addr
		}
	}
}

// LayOutAt assigns the addresses at which sections were loaded to the sections of an object
// file. addr returns the address for a section's name, if it has one. LayOutAt must be called
// before other methods.
func (f *File) LayOutAt(addr func(name string) (uint64, bool)) {
	if f.Type != elf.ET_REL {
		return
	}
	for i := range f.Sections {
		if s := &f.Sections[i]; s.Flags&elf.SHF_ALLOC != 0 {
			if v, ok := addr(s.Name); ok {
				s.Addr = v
			}
		}
	}
}

// Relocated is Data, but applies the section's relocations if the file is an object file.
// Unsupported relocations are an error.
func (f *File) Relocated(s *Section) ([]byte, error) {
	b, err := f.Data(s)
	if err != nil || f.Type != elf.ET_REL || len(b) == 0 {
		return b, err
	}
	index := f.indexOf(s)
	for i := range f.Sections {
		r := &f.Sections[i]
		if r.Type != elf.SHT_REL && r.Type != elf.SHT_RELA || int(r.Info) != index {
			continue
		}
		key := ^index
		f.mu.Lock()
		done, ok := f.cache[key]
		f.mu.Unlock()
		if ok {
			return done, nil
		}
		if int64(len(b)) > f.Left() {
			return nil, tooLarge(s, uint64(len(b)))
		}
		done = bytes.Clone(b)
		if err := f.relocate(done, r); err != nil {
			return nil, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.keep(key, done)
		return done, nil
	}
	return b, nil
}

// relocate applies a table of relocations to the bytes of a section.
func (f *File) relocate(b []byte, table *Section) error {
	ops := relocOps[f.Machine]
	syms, err := f.symbolAddrs(table)
	if err != nil {
		return err
	}
	inPlace := table.Type == elf.SHT_REL
	for r := range f.Relocs(table) {
		if r.Type == 0 { // R_…_NONE
			continue
		}
		op, ok := ops[r.Type]
		if !ok {
			return bad(table.Offset, "relocation %d of %v in %s is not known", r.Type, f.Machine, table.Name)
		}
		if r.Offset > uint64(len(b)) || uint64(op.size) > uint64(len(b))-r.Offset {
			return bad(table.Offset, "relocation of a byte outside of the section")
		}
		v := uint64(r.Addend)
		if uint64(r.Sym) < uint64(len(syms)) {
			v += syms[r.Sym]
		}
		p := b[r.Offset : r.Offset+uint64(op.size)]
		switch {
		case op.sign > 0 || inPlace:
			v += f.get(p)
		case op.sign < 0:
			v = f.get(p) - v
		}
		f.put(p, v)
	}
	return nil
}

// symbolAddrs returns the addresses of the symbols that a table refers to.
func (f *File) symbolAddrs(table *Section) ([]uint64, error) {
	if int(table.Link) >= len(f.Sections) {
		return nil, bad(table.Offset, "relocations without symbols")
	}
	syms, err := f.Symbols(&f.Sections[table.Link])
	if err != nil {
		return nil, err
	}
	out := make([]uint64, syms.Len())
	for i, s := range syms.All() {
		out[i] = s.Value
		if sec := syms.Section(i, &s); sec < uint32(len(f.Sections)) {
			out[i] += f.Sections[sec].Addr
		}
	}
	return out, nil
}

func (f *File) get(p []byte) uint64 {
	switch len(p) {
	case 1:
		return uint64(p[0])
	case 2:
		return uint64(f.Order.Uint16(p))
	case 4:
		return uint64(f.Order.Uint32(p))
	}
	return f.Order.Uint64(p)
}

func (f *File) put(p []byte, v uint64) {
	switch len(p) {
	case 1:
		p[0] = byte(v)
	case 2:
		f.Order.PutUint16(p, uint16(v))
	case 4:
		f.Order.PutUint32(p, uint32(v))
	default:
		f.Order.PutUint64(p, v)
	}
}
