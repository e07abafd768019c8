package stacktest

import (
	"debug/elf"
	"encoding/binary"

	"github.com/borescope/borescope/internal/elfbuild"
)

// chain32 are the functions of Chain32 on amd64: machine code, and call frame instructions behind the rule
// of entries. Each but the first calls the one before, with its last four zeros, at callAt.
var chain32 = []struct {
	name      string
	code, ins []byte
	callAt    int
}{
	// mov $100000, %ecx; 1: dec %ecx; jne 1b; ret
	{name: "leaf", code: []byte{0xb9, 0xa0, 0x86, 0x01, 0, 0x49, 0x75, 0xfd, 0xc3}},
	// sub $100, %esp; call; add $100, %esp; ret
	{"third", []byte{0x83, 0xec, 100, 0xe8, 0, 0, 0, 0, 0x83, 0xc4, 100, 0xc3}, []byte{0x43, 0x0e, 104, 0x48, 0x0e, 4}, 3},
	// push %ebp; mov $1, %ebp; sub $8, %esp; call; add $8, %esp; pop %ebp; ret
	{
		"second",
		[]byte{0x55, 0xbd, 1, 0, 0, 0, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0, 0x83, 0xc4, 8, 0x5d, 0xc3},
		[]byte{0x41, 0x0e, 8, 0x85, 2, 0x48, 0x0e, 16, 0x48, 0x0e, 8, 0x41, 0x0e, 4, 0xc5},
		9,
	},
	// sub $28, %esp; call; add $28, %esp; ret
	{"first", []byte{0x83, 0xec, 28, 0xe8, 0, 0, 0, 0, 0x83, 0xc4, 28, 0xc3}, []byte{0x43, 0x0e, 32, 0x48, 0x0e, 4}, 3},
	// 1: call; jmp 1b
	{"main", []byte{0xe8, 0, 0, 0, 0, 0xeb, 0xf9}, nil, 0},
	// call; hlt, with no caller
	{"_start", []byte{0xe8, 0, 0, 0, 0, 0xf4}, []byte{0x07, 8}, 0},
}

// chainARM are the functions of Chain32 on arm64: "bl leaf; b _start", and
// "mov r2, #0x10000; 1: subs r2, r2, #1; bne 1b; bx lr".
var chainARM = []uint32{0xeb000000, 0xeafffffd, 0xe3a02801, 0xe2522001, 0x1afffffd, 0xe12fff1e}

// Chain32 returns a 32-bit program for a kernel of an architecture, amd64 or arm64, as Chain is one. On
// arm64 it has the functions _start and leaf. It is a whole program of its own, for machines without a
// compiler.
func Chain32(arch string) []byte {
	const codeAddr, ehAddr = 0x400000, 0x800000
	f := elfbuild.File{Class: elf.ELFCLASS32, Type: elf.ET_EXEC, Machine: elf.EM_386}
	text := elfbuild.Section{
		Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: codeAddr,
	}
	function := func(name string, from, to int) {
		f.Symbols = append(f.Symbols, elfbuild.Symbol{
			Name: name, Value: codeAddr + uint64(from), Size: uint64(to - from), Type: elf.STT_FUNC, Bind: elf.STB_GLOBAL, Section: 1,
		})
		f.Entry = codeAddr + uint64(from)
	}
	if arch == "arm64" {
		f.Machine = elf.EM_ARM
		for _, ins := range chainARM {
			text.Data = binary.LittleEndian.AppendUint32(text.Data, ins)
		}
		function("leaf", 8, len(text.Data))
		function("_start", 0, 8)
		f.Sections = []elfbuild.Section{text}
		image := f.Bytes()
		binary.LittleEndian.PutUint32(image[36:], 0x05000000) // e_flags: the EABI's version
		return image
	}
	// A CIE of "zR" with absolute addresses: at entries the CFA is esp+4, and eip is below.
	eh := ehEntry(nil, append(append(make([]byte, 4), 1), "zR\x00\x01\x7c\x08\x01\x00\x0c\x04\x04\x88\x01"...))
	before := 0
	for i, fn := range chain32 {
		at := len(text.Data)
		text.Data = append(text.Data, fn.code...)
		if i > 0 {
			call := at + fn.callAt + 1
			binary.LittleEndian.PutUint32(text.Data[call:], uint32(before-call-4))
		}
		function(fn.name, at, len(text.Data))
		fde := binary.LittleEndian.AppendUint32(nil, uint32(len(eh)+4))
		fde = binary.LittleEndian.AppendUint32(fde, uint32(codeAddr+at))
		fde = binary.LittleEndian.AppendUint32(fde, uint32(len(fn.code)))
		eh = ehEntry(eh, append(append(fde, 0), fn.ins...))
		before = at
	}
	f.Sections = []elfbuild.Section{text, {
		Name: ".eh_frame", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: ehAddr, Data: append(eh, 0, 0, 0, 0),
	}}
	return f.Bytes()
}
