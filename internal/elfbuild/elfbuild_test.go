package elfbuild

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"
)

// TestParses reads what was built with the standard library's reader.
func TestParses(t *testing.T) {
	for _, class := range []elf.Class{elf.ELFCLASS64, elf.ELFCLASS32} {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			f := File{
				Class: class, Order: order, Machine: elf.EM_PPC, Type: elf.ET_EXEC, Entry: 0x10000,
				Sections: []Section{
					{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x10010, Data: []byte("code")},
					{Name: ".bss", Type: elf.SHT_NOBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE, Addr: 0x20000, Size: 64},
				},
				Segments: []Segment{{Type: elf.PT_INTERP, Section: ".text"}},
				Symbols:  []Symbol{{Name: "a.c", Type: elf.STT_FILE, Section: uint16(elf.SHN_ABS)}, {Name: "f", Value: 0x10010, Size: 4, Type: elf.STT_FUNC, Bind: elf.STB_GLOBAL, Section: 1}},
			}
			g, err := elf.NewFile(bytes.NewReader(f.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			if data, err := g.Section(".text").Data(); err != nil || string(data) != "code" {
				t.Errorf("%v %v: .text is %q, %v", class, order, data, err)
			}
			syms, err := g.Symbols()
			if err != nil || len(syms) != 2 || syms[1].Name != "f" || syms[1].Value != 0x10010 || syms[1].Section != 1 {
				t.Errorf("%v %v: symbols %v, %v", class, order, syms, err)
			}
			if len(g.Progs) != 3 || g.Progs[0].Off%pageSize != 0x10 || g.Progs[1].Memsz != 64 || g.Progs[1].Filesz != 0 {
				t.Errorf("%v %v: segments %+v", class, order, g.Progs)
			}
			if s := g.Section(".symtab"); s.Info != 2 || g.Sections[s.Link].Name != ".strtab" {
				t.Errorf("%v %v: .symtab %+v", class, order, s)
			}
			f.NoSections = true
			if g, err = elf.NewFile(bytes.NewReader(f.Bytes())); err != nil || len(g.Sections) != 0 || len(g.Progs) != 3 {
				t.Errorf("%v %v: without sections: %v", class, order, err)
			}
		}
	}
}
