package symbol

import (
	"debug/elf"
	"encoding/binary"
	"slices"
)

// pltSlot is a slot of the global offset table that holds a function's address.
type pltSlot struct {
	at   uint64
	name uint32 // offset in .dynstr
}

// The relocations that fill such slots: the psABIs of x86-64 and of arm64.
const (
	relX86GlobDat, relX86JumpSlot = 6, 7
	relARMGlobDat, relARMJumpSlot = 1025, 1026
)

// addPLT adds the entries of the procedure linkage table, which no symbol
// table lists: little pieces of code that jump to where a slot points. Which
// slot is read from the code itself, as entries need not be in the order of
// the relocations.
func (e *ELF) addPLT(r *symReader) {
	if e.f.Class != elf.ELFCLASS64 || e.f.Order != binary.LittleEndian {
		return
	}
	var slot func(code []byte, at uint64) (uint64, bool)
	switch e.f.Machine {
	case elf.EM_X86_64:
		slot = slotX86
	case elf.EM_AARCH64:
		slot = slotARM64
	default:
		return
	}
	var slots []pltSlot
	for i := range e.f.Sections {
		s := &e.f.Sections[i]
		var size uint64
		switch s.Name {
		case ".plt", ".plt.sec":
			size = 16
		case ".plt.got":
			size = max(s.Entsize, 8)
		default:
			continue
		}
		b, err := e.f.Data(s)
		if err != nil || len(b) == 0 {
			continue
		}
		if slots == nil {
			slots = e.pltSlots()
		}
		for off := uint64(0); off+size <= uint64(len(b)); off += size {
			if at, ok := slot(b[off:off+size], s.Addr+off); ok {
				r.addPLT(slots, at, s.Addr+off, size)
			}
		}
	}
}

func (r *symReader) addPLT(slots []pltSlot, at, vaddr, size uint64) {
	i, ok := slices.BinarySearchFunc(slots, at, func(s pltSlot, at uint64) int {
		if s.at < at {
			return -1
		}
		if s.at > at {
			return 1
		}
		return 0
	})
	if ok {
		r.out = append(r.out, rawSym{value: vaddr, size: uint32(size), name: slots[i].name | fromDyn, kind: symPLT})
	}
}

// pltSlots returns the slots by address.
func (e *ELF) pltSlots() []pltSlot {
	dyn := e.f.SectionOfType(elf.SHT_DYNSYM)
	syms, err := e.f.Data(dyn)
	if err != nil {
		return nil
	}
	glob, jump := uint32(relX86GlobDat), uint32(relX86JumpSlot)
	if e.f.Machine == elf.EM_AARCH64 {
		glob, jump = relARMGlobDat, relARMJumpSlot
	}
	slots := []pltSlot{}
	for i := range e.f.Sections {
		s := &e.f.Sections[i]
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 || s.Name != ".rela.plt" && e.f.Section(".plt.got") == nil {
			continue
		}
		b, err := e.f.Data(s)
		if err != nil {
			continue
		}
		for ; len(b) >= 24; b = b[24:] {
			info := binary.LittleEndian.Uint64(b[8:])
			if t := uint32(info); t != glob && t != jump {
				continue
			}
			sym := info >> 32
			if sym == 0 || sym >= uint64(len(syms)/24) {
				continue
			}
			name := binary.LittleEndian.Uint32(syms[sym*24:])
			slots = append(slots, pltSlot{binary.LittleEndian.Uint64(b), name &^ fromDyn})
		}
	}
	slices.SortStableFunc(slots, func(a, b pltSlot) int {
		if a.at < b.at {
			return -1
		}
		if a.at > b.at {
			return 1
		}
		return 0
	})
	return slots
}

// slotX86 finds "jmp *disp(%rip)" in an entry, after an endbr64 or with a bnd
// prefix perhaps.
func slotX86(code []byte, at uint64) (uint64, bool) {
	for i := 0; i+6 <= len(code) && i <= 5; i++ {
		if code[i] == 0xff && code[i+1] == 0x25 {
			disp := int32(binary.LittleEndian.Uint32(code[i+2:]))
			return at + uint64(i) + 6 + uint64(int64(disp)), true
		}
	}
	return 0, false
}

// slotARM64 decodes "adrp x16, page; ldr x17, [x16, #off]", after a bti perhaps.
func slotARM64(code []byte, at uint64) (uint64, bool) {
	for i := 0; i+8 <= len(code) && i <= 4; i += 4 {
		adrp, ldr := binary.LittleEndian.Uint32(code[i:]), binary.LittleEndian.Uint32(code[i+4:])
		if adrp&0x9f00001f != 0x90000010 || ldr&0xffc003ff != 0xf9400211 {
			continue
		}
		imm := int64(adrp>>5&0x7ffff)<<2 | int64(adrp>>29&3)
		imm = imm << 43 >> 43 // 21 bits, signed
		page := (at+uint64(i))&^0xfff + uint64(imm<<12)
		return page + uint64(ldr>>10&0xfff)*8, true
	}
	return 0, false
}
