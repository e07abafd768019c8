package elfbuild

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
)

// DWARF contains the sections of these names (".debug_abbrev"), little-endian and for 64 bits.
// The functions below return DWARF for ProgramText that takes much work to read.
type DWARF struct{ Abbrev, Info, Line, Str []byte }

// Sections returns the sections that are not empty.
func (d DWARF) Sections() []Section {
	var out []Section
	for _, s := range []struct {
		name string
		data []byte
	}{
		{".debug_abbrev", d.Abbrev},
		{".debug_info", d.Info},
		{".debug_line", d.Line},
		{".debug_str", d.Str},
	} {
		if len(s.data) > 0 {
			out = append(out, Section{Name: s.name, Type: elf.SHT_PROGBITS, Data: s.data})
		}
	}
	return out
}

// dwarfAbbrevs describes a unit, a function, an inlined call, a block and others: the codes of
// the entries below.
var dwarfAbbrevs = []byte{
	// low_pc: addr, high_pc: data4, stmt_list: sec_offset
	codeUnit, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0x10, 0x17, 0, 0,
	codeFunction, 0x2e, 1, 0x11, 0x01, 0x12, 0x06, 0, 0,
	codeCall, 0x1d, 0, 0, 0,
	codeBlock, 0x0b, 1, 0, 0,
	codeTiny, 0x2e, 0, 0x11, 0x01, 0x12, 0x0b, 0, 0, // high_pc: data1
	codeNamed, 0x2e, 0, 0x11, 0x01, 0x12, 0x0b, 0x03, 0x0e, 0, 0, // name: strp
	codePlaced, 0x1d, 0, 0x11, 0x01, 0x12, 0x0b, 0, 0,
	codeNamedUnit, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0x03, 0x0e, 0, 0,
	0,
}

const (
	codeUnit = 1 + iota
	codeFunction
	codeCall
	codeBlock
	codeTiny
	codeNamed
	codePlaced
	codeNamedUnit
)

// dwarfUnit returns a unit for ProgramText with these entries.
func dwarfUnit(entries []byte) []byte { return dwarfUnitOf(codeUnit, entries) }

// dwarfUnitOf is dwarfUnit with the given code for the unit's own entry. The entry's third
// attribute is 0.
func dwarfUnitOf(code byte, entries []byte) []byte {
	o := binary.LittleEndian
	b := []byte{4, 0, 0, 0, 0, 0, 8, code} // version 4, table at 0, addresses of 8 bytes
	b = o.AppendUint64(b, ProgramText)
	b = o.AppendUint32(b, 1<<20)
	b = o.AppendUint32(b, 0)
	b = append(b, entries...)
	return append(o.AppendUint32(nil, uint32(len(b))), b...)
}

// function returns the head of an entry for ProgramText's function.
func function() []byte {
	b := binary.LittleEndian.AppendUint64([]byte{codeFunction}, ProgramText)
	return binary.LittleEndian.AppendUint32(b, 1<<20)
}

// LineRows returns a line program of n rows, of one byte each.
func LineRows(n int) DWARF {
	return lineProgram(nil, lineFile, lineSequence(ProgramText, n))
}

// LineSequences returns a line program of n sequences, of one row each.
func LineSequences(n int) DWARF {
	var program []byte
	for i := range n {
		program = append(program, lineSequence(uint64(ProgramText+i), 1)...)
	}
	return lineProgram(nil, lineFile, program)
}

// LineFiles returns a line program with n directories and n files.
func LineFiles(n int) DWARF {
	return lineProgram(bytes.Repeat([]byte{'d', 0}, n), bytes.Repeat(lineFile, n),
		lineSequence(ProgramText, 1))
}

// lineFile is a file in the table of a line program: x.c.
var lineFile = []byte{'x', '.', 'c', 0, 0, 0, 0}

// lineSequence returns a sequence of n rows, each one line and one byte after the previous
// one.
func lineSequence(addr uint64, n int) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{0, 9, 2}, addr)
	b = append(b, bytes.Repeat([]byte{13 + 5 + 1 + 14}, n)...)
	return append(b, 2, 1, 0, 1, 1)
}

// lineProgram returns a unit with a line program of version 4, its directories and files.
func lineProgram(dirs, files, program []byte) DWARF {
	o := binary.LittleEndian
	header := []byte{1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}
	header = slices.Concat(header, dirs, []byte{0}, files, []byte{0})
	b := o.AppendUint32([]byte{4, 0}, uint32(len(header)))
	b = slices.Concat(b, header, program)
	return DWARF{
		Abbrev: dwarfAbbrevs, Info: dwarfUnit([]byte{0}),
		Line: append(o.AppendUint32(nil, uint32(len(b))), b...),
	}
}

// InlinedCalls returns a function with n inlined calls, of one byte each.
func InlinedCalls(n int) DWARF {
	return DWARF{
		Abbrev: dwarfAbbrevs,
		Info:   dwarfUnit(append(function(), bytes.Repeat([]byte{codeCall}, n)...)),
	}
}

// PlacedCalls returns a function with n inlined calls with addresses, of ten bytes each.
func PlacedCalls(n int) DWARF {
	entries := function()
	for i := range n {
		entries = binary.LittleEndian.AppendUint64(append(entries, codePlaced), uint64(ProgramText+i))
		entries = append(entries, 1)
	}
	return DWARF{Abbrev: dwarfAbbrevs, Info: dwarfUnit(entries)}
}

// Functions returns n functions, of ten bytes each.
func Functions(n int) DWARF {
	var entries []byte
	for i := range n {
		entries = binary.LittleEndian.AppendUint64(append(entries, codeTiny), uint64(ProgramText+i))
		entries = append(entries, 1)
	}
	return DWARF{Abbrev: dwarfAbbrevs, Info: dwarfUnit(entries)}
}

// DeepEntries returns n nested entries.
func DeepEntries(n int) DWARF {
	return DWARF{
		Abbrev: dwarfAbbrevs,
		Info:   dwarfUnit(append(function(), bytes.Repeat([]byte{codeBlock}, n)...)),
	}
}

// Units returns n units, all for ProgramText.
func Units(n int, line []byte) DWARF {
	return DWARF{Abbrev: dwarfAbbrevs, Info: bytes.Repeat(dwarfUnit([]byte{0}), n), Line: line}
}

// LinesOverLines returns n units, each with its own line program, which extends over those of
// all units behind it.
func LinesOverLines(n int) DWARF {
	o := binary.LittleEndian
	one := lineProgram(nil, lineFile, nil).Line
	d := DWARF{Abbrev: dwarfAbbrevs, Line: bytes.Repeat(one, n)}
	for i := range n {
		at := len(one) * i
		o.PutUint32(d.Line[at:], uint32(len(d.Line)-at-4))
		unit := dwarfUnit([]byte{0})
		o.PutUint32(unit[len(unit)-5:], uint32(at))
		d.Info = append(d.Info, unit...)
	}
	return d
}

// LongNames returns n units with the same name, and n functions that each have their own name,
// all parts of one string of size bytes.
func LongNames(n, size int) DWARF {
	o := binary.LittleEndian
	var entries []byte
	for i := range n {
		entries = o.AppendUint64(append(entries, codeNamed), uint64(ProgramText+i))
		entries = o.AppendUint32(append(entries, 1), uint32(i%size))
	}
	units := bytes.Repeat(dwarfUnitOf(codeNamedUnit, []byte{0}), n)
	return DWARF{
		Abbrev: dwarfAbbrevs, Info: append(dwarfUnit(entries), units...),
		Str: append(bytes.Repeat([]byte{'a'}, size), 0),
	}
}

// Attributes returns a table of n abbreviations with 100 attributes each, of two bytes, before
// a unit's own abbreviation.
func Attributes(n int) DWARF {
	var b []byte
	for i := range n {
		b = append(binary.AppendUvarint(b, uint64(20+i)), 0x34, 0)
		b = append(b, bytes.Repeat([]byte{0x3a, 0x0f}, 100)...) // udata
		b = append(b, 0, 0)
	}
	return DWARF{Abbrev: append(b, dwarfAbbrevs...), Info: dwarfUnit(append(function(), 0, 0))}
}

// Abbrevs returns a table of n abbreviations, unordered and without attributes, before a
// unit's own abbreviation.
func Abbrevs(n int) DWARF {
	var b []byte
	for i := range n {
		b = binary.AppendUvarint(b, uint64(7+2*i))
		b = append(b, 0x34, 0, 0, 0)
	}
	return DWARF{Abbrev: append(b, dwarfAbbrevs...), Info: dwarfUnit(append(function(), 0, 0))}
}
