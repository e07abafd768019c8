package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"
)

// testSym is a symbol of a file that buildELF makes.
type testSym struct {
	name  string
	value uint64
	size  uint64
	typ   elf.SymType
	bind  elf.SymBind
	data  bool // in .data, else .text
}

const (
	testText     = 0x401000
	testTextSize = 0x1000
	testData     = 0x403000
)

// testFile says what buildELF makes.
type testFile struct {
	class   elf.Class
	order   binary.ByteOrder
	machine elf.Machine
	xindex  bool // section numbers in .symtab_shndx
	syms    []testSym
	dyn     []testSym
	buildID []byte
}

type testSection struct {
	name       string
	typ        elf.SectionType
	flags      elf.SectionFlag
	addr       uint64
	link, info uint32
	entsize    uint64
	data       []byte
}

// buildELF makes an ELF file of one code and one data section with symbols.
func buildELF(tb testing.TB, tf testFile) []byte {
	tb.Helper()
	if tf.class == 0 {
		tf.class, tf.order, tf.machine = elf.ELFCLASS64, binary.LittleEndian, elf.EM_X86_64
	}
	secs := []testSection{
		{},
		{".text", elf.SHT_PROGBITS, elf.SHF_ALLOC | elf.SHF_EXECINSTR, testText, 0, 0, 0, bytes.Repeat([]byte{0x90}, testTextSize)},
		{".data", elf.SHT_PROGBITS, elf.SHF_ALLOC | elf.SHF_WRITE, testData, 0, 0, 0, make([]byte, 0x800)},
	}
	if tf.buildID != nil {
		n := make([]byte, 12)
		tf.order.PutUint32(n, 4)
		tf.order.PutUint32(n[4:], uint32(len(tf.buildID)))
		tf.order.PutUint32(n[8:], 3)
		n = append(append(n, "GNU\x00"...), tf.buildID...)
		secs = append(secs, testSection{".note.gnu.build-id", elf.SHT_NOTE, elf.SHF_ALLOC, 0x500000, 0, 0, 0, n})
	}
	add := func(name, strName string, typ elf.SectionType, syms []testSym) {
		strs, tab, x := []byte{0}, symbolEntry(tf, 0, testSym{}, 0), make([]byte, 4)
		for _, s := range syms {
			sec := uint16(1)
			if s.data {
				sec = 2
			}
			shndx := sec
			if tf.xindex {
				shndx = uint16(elf.SHN_XINDEX)
			}
			tab = append(tab, symbolEntry(tf, uint32(len(strs)), s, shndx)...)
			var b [4]byte
			tf.order.PutUint32(b[:], uint32(sec))
			x = append(x, b[:]...)
			strs = append(append(strs, s.name...), 0)
		}
		at := uint32(len(secs))
		secs = append(secs,
			testSection{name, typ, 0, 0, at + 1, 1, uint64(len(symbolEntry(tf, 0, testSym{}, 0))), tab},
			testSection{strName, elf.SHT_STRTAB, 0, 0, 0, 0, 0, strs})
		if tf.xindex {
			secs = append(secs, testSection{".symtab_shndx", elf.SHT_SYMTAB_SHNDX, 0, 0, at, 0, 4, x})
		}
	}
	if tf.syms != nil {
		add(".symtab", ".strtab", elf.SHT_SYMTAB, tf.syms)
	}
	if tf.dyn != nil {
		add(".dynsym", ".dynstr", elf.SHT_DYNSYM, tf.dyn)
	}
	return layoutELF(tf, secs)
}

func symbolEntry(tf testFile, name uint32, s testSym, shndx uint16) []byte {
	info := byte(s.bind)<<4 | byte(s.typ)
	if tf.class == elf.ELFCLASS64 {
		b := make([]byte, 24)
		tf.order.PutUint32(b, name)
		b[4] = info
		tf.order.PutUint16(b[6:], shndx)
		tf.order.PutUint64(b[8:], s.value)
		tf.order.PutUint64(b[16:], s.size)
		return b
	}
	b := make([]byte, 16)
	tf.order.PutUint32(b, name)
	tf.order.PutUint32(b[4:], uint32(s.value))
	tf.order.PutUint32(b[8:], uint32(s.size))
	b[12] = info
	tf.order.PutUint16(b[14:], shndx)
	return b
}

// layoutELF writes the header, one PT_LOAD for .text, the sections and their
// headers.
func layoutELF(tf testFile, secs []testSection) []byte {
	names := []byte{0}
	var nameOff []uint32
	secs = append(secs, testSection{name: ".shstrtab", typ: elf.SHT_STRTAB})
	for _, s := range secs {
		nameOff = append(nameOff, uint32(len(names)))
		names = append(append(names, s.name...), 0)
	}
	secs[len(secs)-1].data = names
	var ident [16]byte
	copy(ident[:], elf.ELFMAG)
	ident[4], ident[5], ident[6] = byte(tf.class), 1, 1
	if tf.order == binary.BigEndian {
		ident[5] = 2
	}
	at := uint64(0x1000) // the first section's offset is its address, modulo a page
	offs := make([]uint64, len(secs))
	body := []byte{}
	for i, s := range secs {
		for len(body)%16 != 0 {
			body = append(body, 0)
		}
		offs[i] = at + uint64(len(body))
		body = append(body, s.data...)
	}
	shoff := (at + uint64(len(body)) + 15) &^ 15
	var out bytes.Buffer
	w := func(v any) { _ = binary.Write(&out, tf.order, v) }
	if tf.class == elf.ELFCLASS64 {
		w(elf.Header64{
			Ident: ident, Type: 2, Machine: uint16(tf.machine), Version: 1, Phoff: 64, Shoff: shoff,
			Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: uint16(len(secs)), Shstrndx: uint16(len(secs) - 1),
		})
		w(elf.Prog64{Type: 1, Flags: 5, Off: offs[1], Vaddr: testText, Filesz: testTextSize, Memsz: testTextSize, Align: 0x1000})
	} else {
		w(elf.Header32{
			Ident: ident, Type: 2, Machine: uint16(tf.machine), Version: 1, Phoff: 52, Shoff: uint32(shoff),
			Ehsize: 52, Phentsize: 32, Phnum: 1, Shentsize: 40, Shnum: uint16(len(secs)), Shstrndx: uint16(len(secs) - 1),
		})
		w(elf.Prog32{Type: 1, Flags: 5, Off: uint32(offs[1]), Vaddr: testText, Filesz: testTextSize, Memsz: testTextSize, Align: 0x1000})
	}
	out.Write(make([]byte, int(at)-out.Len()))
	out.Write(body)
	out.Write(make([]byte, int(shoff)-out.Len()))
	for i, s := range secs {
		if tf.class == elf.ELFCLASS64 {
			w(elf.Section64{
				Name: nameOff[i], Type: uint32(s.typ), Flags: uint64(s.flags), Addr: s.addr, Off: offs[i],
				Size: uint64(len(s.data)), Link: s.link, Info: s.info, Addralign: 4, Entsize: s.entsize,
			})
			continue
		}
		w(elf.Section32{
			Name: nameOff[i], Type: uint32(s.typ), Flags: uint32(s.flags), Addr: uint32(s.addr), Off: uint32(offs[i]),
			Size: uint32(len(s.data)), Link: s.link, Info: s.info, Addralign: 4, Entsize: uint32(s.entsize),
		})
	}
	return out.Bytes()
}
