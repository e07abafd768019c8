package elfbuild

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
)

// This file builds other files that take much work to read: output of compilers, tracers and
// the linker.

// note returns a note as in a section or a segment, aligned to 4 bytes.
func note(owner string, typ uint32, desc []byte) []byte {
	o := binary.LittleEndian
	b := o.AppendUint32(nil, uint32(len(owner)+1))
	b = o.AppendUint32(o.AppendUint32(b, uint32(len(desc))), typ)
	for _, part := range [][]byte{append([]byte(owner), 0), desc} {
		b = append(b, part...)
		b = append(b, make([]byte, -len(part)&3)...)
	}
	return b
}

// Stapsdt returns a note of the USDT probe p:n in a program's code, with these arguments.
func Stapsdt(args string) []byte {
	desc := binary.LittleEndian.AppendUint64(nil, ProgramText)
	desc = append(desc, make([]byte, 16)...)
	return note("stapsdt", 3, append(desc, "p\x00n\x00"+args+"\x00"...))
}

// stapsdtSection returns a section of such notes.
func stapsdtSection(flags elf.SectionFlag, notes []byte) Section {
	return Section{Name: ".note.stapsdt", Type: elf.SHT_NOTE, Flags: flags, Data: notes, Align: 4}
}

// linkerCache returns an ld.so.cache for amd64. All its entries share the same long text.
func linkerCache(entries int) []byte {
	o := binary.LittleEndian
	b := append([]byte("glibc-ld.so.cache1.1"), make([]byte, 28)...)
	o.PutUint32(b[20:], uint32(entries))
	text := uint32(len(b) + 24*entries)
	for range entries {
		b = o.AppendUint32(b, 0x0303) // for x86-64, of glibc 2
		b = o.AppendUint32(o.AppendUint32(b, text+3840), text)
		b = append(b, make([]byte, 12)...)
	}
	return append(b, strings.Repeat("a", 4094)+"\x00"...)
}

// jitDump returns a jitdump for amd64 with n functions of one byte of code each, from 0x1000
// on, with names of the given length.
func jitDump(n, name int) []byte {
	o := binary.LittleEndian
	b := []byte{0x44, 0x54, 0x69, 0x4a, 1, 0, 0, 0, 40, 0, 0, 0, 62, 0, 0, 0}
	b = append(b, make([]byte, 24)...)
	names := append(bytes.Repeat([]byte{'a'}, name), 0)
	for i := range n {
		b = o.AppendUint32(append(b, 0, 0, 0, 0), uint32(16+40+len(names)))
		b = append(b, make([]byte, 8+16)...)
		b = o.AppendUint64(b, 0x1000+uint64(i))
		b = o.AppendUint64(b, 1)
		b = append(o.AppendUint64(b, uint64(i)), names...)
	}
	return b
}

// coreFile returns a core file of a process on amd64 with these notes.
func coreFile(notes []byte) []byte {
	f := File{Type: elf.ET_CORE, Machine: elf.EM_X86_64, NoSections: true}
	f.Sections = []Section{{Name: "notes", Type: elf.SHT_NOTE, Data: notes, Align: 4}}
	f.Segments = []Segment{{Type: elf.PT_NOTE, Section: "notes", Align: 4}}
	return f.Bytes()
}

// prstatusSize is the size of struct elf_prstatus on amd64 (include/linux/elfcore.h).
const prstatusSize = 336

// coreThreads returns the notes of n threads.
func coreThreads(n int) []byte {
	return bytes.Repeat(note("CORE", 1, make([]byte, prstatusSize)), n)
}

// coreFiles returns a note of a thread, and one with a header that gives the number of mapped
// files as says. It describes n of them, each with a page and a name of one byte.
func coreFiles(says uint64, n int) []byte {
	o := binary.LittleEndian
	desc := o.AppendUint64(o.AppendUint64(nil, says), 4096)
	for i := range uint64(n) {
		desc = o.AppendUint64(desc, i<<12)
		desc = o.AppendUint64(o.AppendUint64(desc, (i+1)<<12), 0)
	}
	desc = append(desc, bytes.Repeat([]byte{'x', 0}, n)...)
	return append(coreThreads(1), note("CORE", 0x46494c45, desc)...) // NT_FILE
}
