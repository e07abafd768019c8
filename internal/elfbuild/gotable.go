package elfbuild

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// GoTable is the function table of a Go program (.gopclntab, in the format since 1.20:
// internal/abi/symtab.go). Its functions share one file and their pc-value tables, and one
// name unless Names is set. They follow each other from ProgramText on.
type GoTable struct {
	Functions int
	Steps     int // of each table, with one byte of code per step
	Names     int // length of each function's name, all parts of one string; 0: one name
}

// Section returns the section with the table.
func (g GoTable) Section() Section {
	o := binary.LittleEndian
	table := func(first byte) []byte {
		b := append(make([]byte, 0, 2*g.Steps+1), first, 1)
		for i := 1; i < g.Steps; i++ {
			b = append(b, byte(2-i%2), 1) // alternately one less and one more
		}
		return append(b, 0)
	}
	lines, files := append([]byte{0}, table(4)...), table(4) // 1, 0, 1 …
	const header, function = 8 + 8*8, 44
	names, units, paths := append(bytes.Repeat([]byte{'f'}, max(2*g.Names, 1)), 0), make([]byte, 8),
		"f.go\x00"
	offsets := []uint64{header}
	for _, n := range []int{len(names), len(units), len(paths), len(lines) + len(files)} {
		offsets = append(offsets, offsets[len(offsets)-1]+uint64(n))
	}
	b := o.AppendUint32(nil, 0xfffffff1)
	b = append(b, 0, 0, 1, 8)
	for _, v := range append([]uint64{uint64(g.Functions), 1, ProgramText}, offsets...) {
		b = o.AppendUint64(b, v)
	}
	b = append(append(append(append(b, names...), units...), paths...), lines...)
	b = append(b, files...)
	places, descriptions := 8*g.Functions+4, 1
	if g.Names > 0 {
		descriptions = g.Functions
	}
	for i := range g.Functions {
		b = o.AppendUint32(b, uint32(i*g.Steps))
		b = o.AppendUint32(b, uint32(places+function*(i%descriptions)))
	}
	b = o.AppendUint32(b, uint32(g.Functions*g.Steps))
	for i := range descriptions {
		// entry, name, args, deferreturn, pcsp, pcfile, pcln, npcdata, cu, startLine
		for _, v := range []int{i * g.Steps, i % max(g.Names, 1), 0, 0, 1, len(lines), 1, 0, 0, 1} {
			b = o.AppendUint32(b, uint32(v))
		}
		b = append(b, make([]byte, function-40)...)
	}
	return Section{
		Name: ".gopclntab", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: 0x1000000,
		Data: b, Align: 8,
	}
}
