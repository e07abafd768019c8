package stacktest

import (
	"debug/elf"
	"encoding/binary"

	"github.com/borescope/borescope/internal/elfbuild"
)

// Numbers of .eh_frame, and of registers in DWARF.
const (
	ehAbs              = 0x00
	defCFA             = 0x0c
	amd64RSP, amd64RIP = 7, 16
	arm64LR, arm64SP   = 30, 31
)

// ehEntry appends an entry with its length to .eh_frame or .debug_frame.
func ehEntry(b, body []byte) []byte {
	for len(body)%8 != 4 {
		body = append(body, 0)
	}
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(body))), body...)
}

// EhFrame builds an .eh_frame of CIEs and FDEs with absolute addresses: the usual rules at
// entry of amd64 (or arm64), then each FDE's own.
type EhFrame struct {
	ARM64 bool

	b []byte
}

// FDE appends the description of a function, with its own CIE, and returns f.
func (f *EhFrame) FDE(start, size uint64, aug string, ins ...byte) *EhFrame {
	cie := len(f.b)
	body := binary.LittleEndian.AppendUint32(nil, 0)
	body = append(body, 1)
	body = append(body, "zR"+aug+"\x00"...)
	if f.ARM64 {
		body = append(body, 1, 0x78, arm64LR, 1, ehAbs, defCFA, arm64SP, 0)
	} else {
		body = append(body, 1, 0x78, amd64RIP, 1, ehAbs, defCFA, amd64RSP, 8, 0x80|amd64RIP, 1)
	}
	f.b = ehEntry(f.b, body)
	body = binary.LittleEndian.AppendUint32(nil, uint32(len(f.b)+4-cie))
	body = binary.LittleEndian.AppendUint64(body, start)
	body = binary.LittleEndian.AppendUint64(body, size)
	body = append(append(body, 0), ins...)
	f.b = ehEntry(f.b, body)
	return f
}

// Bytes returns the section.
func (f *EhFrame) Bytes() []byte { return append(f.b[:len(f.b):len(f.b)], 0, 0, 0, 0) }

// ELF returns a file with the section.
func (f *EhFrame) ELF() []byte {
	m := elf.EM_X86_64
	if f.ARM64 {
		m = elf.EM_AARCH64
	}
	file := elfbuild.File{Machine: m, Sections: []elfbuild.Section{
		{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR},
		{Name: ".eh_frame", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: 1 << 30, Data: f.Bytes()},
	}}
	return file.Bytes()
}
