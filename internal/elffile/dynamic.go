package elffile

import "debug/elf"

// sectionsFromSegments replaces a missing section table (removed by "strip
// --strip-section-headers" or by hand, never part of an image in memory): the dynamic segment
// contains the offset of the dynamic symbols, and executable segments count as code.
func (f *File) sectionsFromSegments() {
	out := []Section{{}}
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		s := Section{
			Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: p.Vaddr, Offset: p.Offset, Size: p.Filesz,
		}
		if p.Flags&elf.PF_X != 0 {
			s.Flags |= elf.SHF_EXECINSTR
		}
		if p.Flags&elf.PF_W != 0 {
			s.Flags |= elf.SHF_WRITE
		}
		out = append(out, s)
	}
	loads := len(out)
	if tags := f.Dynamic(); tags != nil {
		out = append(out, f.dynamicSections(tags)...)
		if len(out) > loads {
			out[loads].Link = uint32(loads + 1)
		}
		out = append(out, f.relocSections(tags)...)
	}
	if len(out) > 1 {
		f.Sections, f.Synthetic = out, true
	}
}

// maxDynamic bounds the entries of a dynamic segment.
const maxDynamic = 4096

// Dynamic returns the entries of the dynamic segment, the last one of each tag. It is nil if
// the file has none.
func (f *File) Dynamic() map[elf.DynTag]uint64 {
	for i := range f.Progs {
		if f.Progs[i].Type == elf.PT_DYNAMIC {
			return f.dynamic(&f.Progs[i])
		}
	}
	return nil
}

func (f *File) dynamic(p *Prog) map[elf.DynTag]uint64 {
	word := uint64(8)
	if f.Class == elf.ELFCLASS32 {
		word = 4
	}
	b, err := f.Bytes(p.Offset, min(p.Filesz, maxDynamic*2*word))
	if err != nil {
		return nil
	}
	tags := map[elf.DynTag]uint64{}
	for ; uint64(len(b)) >= 2*word; b = b[2*word:] {
		tag := elf.DynTag(f.word(b))
		if tag == elf.DT_NULL {
			break
		}
		tags[tag] = f.word(b[word:])
	}
	return tags
}

// dynamicSections returns .dynsym and .dynstr as the dynamic segment describes them, or
// nothing if it does not.
func (f *File) dynamicSections(tags map[elf.DynTag]uint64) []Section {
	symOff, ok1 := f.dynOffset(tags[elf.DT_SYMTAB])
	strOff, ok2 := f.dynOffset(tags[elf.DT_STRTAB])
	n := f.dynCount(tags)
	size := uint64(24)
	if f.Class == elf.ELFCLASS32 {
		size = 16
	}
	if !ok1 || !ok2 || n == 0 || n > uint64(f.size)/size {
		return nil
	}
	return []Section{
		{
			Name: ".dynsym", Type: elf.SHT_DYNSYM, Addr: tags[elf.DT_SYMTAB], Offset: symOff, Size: n * size,
			Entsize: size,
		},
		{
			Name: ".dynstr", Type: elf.SHT_STRTAB, Addr: tags[elf.DT_STRTAB], Offset: strOff,
			Size: tags[elf.DT_STRSZ],
		},
	}
}

// relocSections returns the tables of relocations.
func (f *File) relocSections(tags map[elf.DynTag]uint64) (out []Section) {
	plt := elf.SHT_RELA
	if elf.DynTag(tags[elf.DT_PLTREL]) == elf.DT_REL {
		plt = elf.SHT_REL
	}
	for _, t := range []struct {
		addr, size elf.DynTag
		typ        elf.SectionType
	}{
		{elf.DT_RELA, elf.DT_RELASZ, elf.SHT_RELA},
		{elf.DT_REL, elf.DT_RELSZ, elf.SHT_REL},
		{elf.DT_JMPREL, elf.DT_PLTRELSZ, plt},
	} {
		if off, ok := f.dynOffset(tags[t.addr]); ok && tags[t.size] > 0 {
			out = append(out, Section{
				Type: t.typ, Flags: elf.SHF_ALLOC, Addr: tags[t.addr], Offset: off, Size: tags[t.size],
			})
		}
	}
	return out
}

func (f *File) word(b []byte) uint64 {
	if f.Class == elf.ELFCLASS32 {
		return uint64(f.Order.Uint32(b))
	}
	return f.Order.Uint64(b)
}

func (f *File) dynOffset(addr uint64) (uint64, bool) {
	if addr == 0 {
		return 0, false
	}
	return f.Offset(addr)
}

// dynCount returns the number of dynamic symbols. Only the hash tables contain it: DT_HASH
// directly, DT_GNU_HASH as the end of its last chain.
func (f *File) dynCount(tags map[elf.DynTag]uint64) uint64 {
	u32 := func(off uint64) (uint64, bool) {
		b, err := f.Bytes(off, 4)
		if err != nil {
			return 0, false
		}
		return uint64(f.Order.Uint32(b)), true
	}
	if off, ok := f.dynOffset(tags[elf.DT_HASH]); ok {
		n, _ := u32(off + 4)
		return n
	}
	off, ok := f.dynOffset(tags[elf.DT_GNU_HASH])
	if !ok {
		return 0
	}
	nbuckets, _ := u32(off)
	first, _ := u32(off + 4)
	bloom, ok := u32(off + 8)
	word := uint64(8)
	if f.Class == elf.ELFCLASS32 {
		word = 4
	}
	if !ok || nbuckets > uint64(f.room())/4 || bloom > uint64(f.size)/word {
		return 0
	}
	buckets := off + 16 + bloom*word
	last := uint64(0)
	for i := range nbuckets {
		v, ok := u32(buckets + 4*i)
		if !ok {
			return 0
		}
		last = max(last, v)
	}
	if last < first {
		return first
	}
	chains := buckets + 4*nbuckets
	for range f.room() / 4 {
		v, ok := u32(chains + 4*(last-first))
		if !ok {
			return 0
		}
		last++
		if v&1 != 0 {
			return last
		}
	}
	return 0
}
