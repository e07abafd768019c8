package symbol

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/borescope/borescope/internal/elffile"
)

// pltArch describes an architecture's procedure linkage table: short pieces of code that
// each jump to the address in a slot of the global offset table.
type pltArch struct {
	size uint64 // of an entry of .plt and .plt.sec
	step uint64 // the least distance of entries
	// slot decodes the entry at an address. It returns the address of the entry's slot, and the
	// number of bytes that the entry has beyond size. got is the value of %ebx on 386.
	slot func(code []byte, at, got uint64) (slot, more uint64, ok bool)
	// The types of relocations that fill slots, from the architecture's psABI.
	globDat, jumpSlot uint32
}

var pltArchs = map[elf.Machine]pltArch{
	elf.EM_X86_64:  {size: 16, step: 16, slot: slotX86, globDat: 6, jumpSlot: 7},
	elf.EM_386:     {size: 16, step: 16, slot: slot386, globDat: 6, jumpSlot: 7},
	elf.EM_AARCH64: {size: 16, step: 16, slot: slotARM64, globDat: 1025, jumpSlot: 1026},
	elf.EM_ARM:     {size: 12, step: 4, slot: slotARM, globDat: 21, jumpSlot: 22},
	elf.EM_RISCV:   {size: 16, step: 16, slot: slotRISCV, globDat: 2, jumpSlot: 5},
	elf.EM_S390:    {size: 32, step: 32, slot: slotS390, globDat: 10, jumpSlot: 11},
	elf.EM_PPC64:   {size: 4, globDat: 20, jumpSlot: 21}, // see addGlink
}

// pltSlot is a slot of the global offset table for a function's address.
type pltSlot struct {
	at   uint64
	name uint32 // offset in .dynstr
	jump bool   // of the linkage table
}

// addPLT adds the entries of the procedure linkage table, which no symbol table lists. The slot
// of an entry is read from its code, as entries need not be in the order of the relocations.
func (e *ELF) addPLT(r *symReader) {
	arch, ok := pltArchs[e.f.Machine]
	if !ok || e.f.Machine == elf.EM_386 && e.f.Class != elf.ELFCLASS32 {
		return
	}
	if e.f.Machine == elf.EM_PPC64 {
		e.addGlink(r, &arch)
		return
	}
	var slots []pltSlot
	tags := e.f.Dynamic()
	left := e.f.Stored() // sections may overlap
	for i := range e.f.Sections {
		s := &e.f.Sections[i]
		size, step := arch.size, arch.step
		switch s.Name {
		case ".plt", ".plt.sec":
		case ".plt.got":
			if size = max(s.Entsize, 8); s.Entsize == 0 {
				size = gotEntry(&arch, e.f, s)
			}
			step = size
		default:
			continue
		}
		b, err := e.f.Data(s)
		if err != nil || len(b) == 0 || int64(len(b)) > left {
			continue
		}
		left -= int64(len(b))
		if slots == nil {
			slots = e.pltSlots(&arch, tags)
		}
		got := gotBase(tags, e.f, b)
		for off := uint64(0); off+size <= uint64(len(b)) && len(r.out) < r.most; {
			at, more, ok := arch.slot(b[off:], s.Addr+off, got)
			if !ok || !r.addPLT(slots, at, s.Addr+off, size+more) {
				off += step
				continue
			}
			off += size + more
		}
	}
}

// gotEntry returns the size of the entries of a .plt.got without a stated size, as mold's. It
// is that of other entries, except on x86 without checks of indirect branches: 8 there.
func gotEntry(arch *pltArch, f *elffile.File, s *elffile.Section) uint64 {
	b, err := f.Data(s)
	switch {
	case err == nil && (bytes.HasPrefix(b, endbr64) || bytes.HasPrefix(b, endbr32)):
	case f.Machine == elf.EM_X86_64 || f.Machine == elf.EM_386:
		return 8
	}
	return arch.size
}

// gotBase returns the address that the entries of 386 are relative to: DT_PLTGOT, but the
// section .got with mold, whose entries are filled up with int3.
func gotBase(tags map[elf.DynTag]uint64, f *elffile.File, plt []byte) uint64 {
	if s := f.Section(".got"); s != nil && plt[len(plt)-1] == int3 {
		return s.Addr
	}
	return tags[elf.DT_PLTGOT]
}

// addPLT adds an entry, if its slot is that of a symbol.
func (r *symReader) addPLT(slots []pltSlot, at, vaddr, size uint64) bool {
	i, ok := slices.BinarySearchFunc(slots, at, func(s pltSlot, at uint64) int {
		return cmp.Compare(s.at, at)
	})
	if ok {
		r.out = append(r.out,
			rawSym{value: vaddr, size: uint32(size), name: slots[i].name | fromDyn, kind: symPLT})
	}
	return ok
}

// Glink: DT_PPC64_GLINK points 32 bytes before the first branch, one for each
// slot in the order of their addresses (Power ELF V2 ABI, "DT_PPC64_GLINK").
const (
	dtPPC64Glink = elf.DynTag(0x70000000)
	glinkHeader  = 32
)

// addGlink adds the branches that bind functions on 64-bit PowerPC with the
// second ABI.
func (e *ELF) addGlink(r *symReader, arch *pltArch) {
	tags := e.f.Dynamic()
	glink := tags[dtPPC64Glink]
	if glink == 0 || e.f.Order != binary.LittleEndian {
		return
	}
	at := glink + glinkHeader
	for _, s := range e.pltSlots(arch, tags) {
		if s.jump && len(r.out) < r.most {
			r.out = append(r.out,
				rawSym{value: at, size: uint32(arch.size), name: s.name | fromDyn, kind: symPLT})
			at += arch.size
		}
	}
}

// pltSlots returns the slots by address.
func (e *ELF) pltSlots(arch *pltArch, tags map[elf.DynTag]uint64) []pltSlot {
	syms, err := e.f.Symbols(e.f.SectionOfType(elf.SHT_DYNSYM))
	if err != nil {
		return nil
	}
	relaSize := uint64(24)
	if e.f.Class == elf.ELFCLASS32 {
		relaSize = 12
	}
	slots := []pltSlot{}
	hasGot := e.f.Section(".plt.got") != nil
	left := e.f.Stored() / int64(relaSize) // entries of all tables
	for i := range e.f.Sections {
		s := e.f.Sections[i]
		isRela := s.Type == elf.SHT_RELA
		if !isRela && s.Type != elf.SHT_REL || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		if s.Name != ".rela.plt" && s.Name != ".rel.plt" {
			if !hasGot {
				continue
			}
			// The relative relocations come first and are many.
			if skip := min(tags[elf.DT_RELACOUNT]*relaSize, s.Size); isRela && s.Addr == tags[elf.DT_RELA] {
				s.Offset, s.Size = s.Offset+skip, s.Size-skip
			}
		}
		for rel := range e.f.Relocs(&s) {
			if left--; left < 0 {
				break
			}
			if rel.Type != arch.globDat && rel.Type != arch.jumpSlot || rel.Sym == 0 ||
				uint64(rel.Sym) >= uint64(syms.Len()) {
				continue
			}
			name := syms.At(int(rel.Sym)).Name
			slots = append(slots, pltSlot{rel.Offset, name &^ fromDyn, rel.Type == arch.jumpSlot})
		}
	}
	slices.SortStableFunc(slots, func(a, b pltSlot) int { return cmp.Compare(a.at, b.at) })
	return slots
}

const int3 = 0xcc

// endbr64 and endbr32 begin entries if indirect branches are checked. moldEntry begins those of
// mold, followed by mov r11d, N.
var (
	endbr64   = []byte{0xf3, 0x0f, 0x1e, 0xfa}
	endbr32   = []byte{0xf3, 0x0f, 0x1e, 0xfb}
	moldEntry = append(endbr64[:4:4], 0x41, 0xbb)
)

// slotX86 decodes "jmp *disp(%rip)" in an entry, perhaps after an endbr64 or with a bnd prefix;
// mold puts the number of the relocation into r11 in between.
func slotX86(code []byte, at, _ uint64) (slot, more uint64, ok bool) {
	first := 0
	if bytes.HasPrefix(code, moldEntry) {
		first = len(moldEntry) + 4
	}
	for i := first; i+6 <= len(code) && i <= first+5; i++ {
		if code[i] == 0xff && code[i+1] == 0x25 {
			disp := int32(binary.LittleEndian.Uint32(code[i+2:]))
			return at + uint64(i) + 6 + uint64(int64(disp)), 0, true
		}
	}
	return 0, 0, false
}

// slot386 decodes "jmp *slot", or "jmp *disp(%ebx)" in position independent code; mold puts
// "mov $relocation, %ecx" in between.
func slot386(code []byte, _, got uint64) (slot, more uint64, ok bool) {
	const movECX = 0xb9
	if code = bytes.TrimPrefix(code, endbr32); len(code) > 5 && code[0] == movECX {
		code = code[5:]
	}
	for i := 0; i+6 <= len(code) && i <= 5; i++ {
		if code[i] != 0xff {
			continue
		}
		v := uint64(binary.LittleEndian.Uint32(code[i+2:]))
		switch code[i+1] {
		case 0x25:
			return v, 0, true
		case 0xa3:
			return uint64(uint32(got + v)), 0, true
		}
	}
	return 0, 0, false
}

// slotARM64 decodes "adrp x16, page; ldr x17, [x16, #off]", perhaps after a bti.
func slotARM64(code []byte, at, _ uint64) (slot, more uint64, ok bool) {
	for i := 0; i+8 <= len(code) && i <= 4; i += 4 {
		adrp, ldr := binary.LittleEndian.Uint32(code[i:]), binary.LittleEndian.Uint32(code[i+4:])
		if adrp&0x9f00001f != 0x90000010 || ldr&0xffc003ff != 0xf9400211 {
			continue
		}
		imm := int64(adrp>>5&0x7ffff)<<2 | int64(adrp>>29&3)
		imm = imm << 43 >> 43 // 21 bits, signed
		page := (at+uint64(i))&^0xfff + uint64(imm<<12)
		return page + uint64(ldr>>10&0xfff)*8, 0, true
	}
	return 0, 0, false
}

// slotARM decodes "add ip, pc, #a; add ip, ip, #b; ldr pc, [ip, #c]!". Tail
// calls from Thumb code need "bx pc" and padding in front.
func slotARM(code []byte, at, _ uint64) (slot, more uint64, ok bool) {
	if len(code) >= 16 && binary.LittleEndian.Uint16(code) == 0x4778 {
		more = 4
		code = code[more:]
	}
	if len(code) < 12 {
		return 0, 0, false
	}
	one, two, three := binary.LittleEndian.Uint32(code), binary.LittleEndian.Uint32(code[4:]),
		binary.LittleEndian.Uint32(code[8:])
	if one&0xfffff000 != 0xe28fc000 || two&0xfffff000 != 0xe28cc000 || three&0xfffff000 != 0xe5bcf000 {
		return 0, 0, false
	}
	pc := uint32(at+more) + 8
	return uint64(pc + armImmediate(one) + armImmediate(two) + three&0xfff), more, true
}

// armImmediate decodes the 8 bits and the rotation of an instruction.
func armImmediate(ins uint32) uint32 {
	v, rot := ins&0xff, ins>>8&15*2
	return v>>rot | v<<(32-rot)
}

// slotRISCV decodes "auipc t3, hi; l[wd] t3, lo(t3)".
func slotRISCV(code []byte, at, _ uint64) (slot, more uint64, ok bool) {
	if len(code) < 8 {
		return 0, 0, false
	}
	auipc, load := binary.LittleEndian.Uint32(code), binary.LittleEndian.Uint32(code[4:])
	if auipc&0xfff != 0xe17 || load&0xfefff != 0xe2e03 && load&0xfefff != 0xe3e03 {
		return 0, 0, false
	}
	return at + uint64(int64(int32(auipc&0xfffff000))) + uint64(int64(int32(load)>>20)), 0, true
}

// slotS390 decodes "larl %r1, slot".
func slotS390(code []byte, at, _ uint64) (slot, more uint64, ok bool) {
	if len(code) < 6 || code[0] != 0xc0 || code[1] != 0x10 {
		return 0, 0, false
	}
	return at + uint64(2*int64(int32(binary.BigEndian.Uint32(code[2:])))), 0, true
}
