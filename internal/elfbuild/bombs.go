package elfbuild

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ulikunitz/xz"
)

// This file builds small files that take much work to read, which any user may write and
// execute, and which a root user's tool may read.

// Compressed returns the contents of a section with SHF_COMPRESSED: a 64-bit little-endian
// header and, as a zlib stream, head followed by n zeros or, if given, n bytes of repeat.
func Compressed(head []byte, n int, repeat ...byte) []byte {
	if len(repeat) == 0 {
		repeat = []byte{0}
	}
	n -= n % len(repeat)
	b := binary.LittleEndian.AppendUint32(nil, uint32(elf.COMPRESS_ZLIB))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(head)+n))
	b = binary.LittleEndian.AppendUint64(b, 1)
	out := bytes.NewBuffer(b)
	// Writing to a buffer does not fail.
	w, _ := zlib.NewWriterLevel(out, zlib.BestCompression)
	_, _ = w.Write(head)
	r := &repeater{b: bytes.Repeat(repeat, 64<<10/len(repeat)+1)}
	_, _ = io.CopyN(w, r, int64(n))
	_ = w.Close()
	return out.Bytes()
}

// xzZeros returns n zeros, compressed by xz.
func xzZeros(n int) []byte {
	var out bytes.Buffer
	// Writing to a buffer does not fail.
	w, _ := xz.NewWriter(&out)
	_, _ = w.Write(make([]byte, n))
	_ = w.Close()
	return out.Bytes()
}

// repeater is a reader of the same bytes again and again.
type repeater struct {
	b  []byte
	at int
}

func (r *repeater) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		m := copy(p[n:], r.b[r.at:])
		n += m
		r.at = (r.at + m) % len(r.b)
	}
	return len(p), nil
}

// spinner is a program for amd64 Linux: it counts to a million, sleeps for some milliseconds,
// and starts again.
var spinner = []byte{
	0xb9, 0x40, 0x42, 0x0f, 0x00, // mov $1000000, %ecx
	0xff, 0xc9, // dec %ecx
	0x75, 0xfc, // jnz
	0xb8, 0x23, 0, 0, 0, // mov $35, %eax: nanosleep
	0x48, 0x8d, 0x3d, 11, 0, 0, 0, // lea 11(%rip), %rdi
	0x31, 0xf6, // xor %esi, %esi
	0x0f, 0x05, // syscall
	0xeb, 0xe5, // jmp
	0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, // seconds
	0x80, 0x96, 0x98, 0, 0, 0, 0, 0, // 10,000,000 ns
}

// These are the addresses of Program's sections.
const (
	ProgramText  = 0x1000
	ProgramFrame = 0x10000
)

// Program returns a program for amd64 Linux that alternately computes and sleeps until it is
// killed. Its code is in the file's .text, at ProgramText, before the given sections.
func Program(sections ...Section) *File {
	return &File{Machine: elf.EM_X86_64, Entry: ProgramText, Sections: append([]Section{{
		Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
		Addr: ProgramText, Data: spinner,
	}}, sections...)}
}

// Frames returns an .eh_frame with n descriptions of one byte of code each, the first for the
// byte at address text. The section must be at the address ProgramFrame. The rules repeat
// after 16.
func Frames(text uint64, n int) []byte {
	cie := []byte{
		20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, // pc-relative, sdata4
		0x0c, 7, 8, 0x90, 1, 0, 0, // CFA = rsp+8, rip at -8
	}
	b := append(make([]byte, 0, len(cie)+24*n+4), cie...)
	for i := range n {
		at := len(b)
		b = binary.LittleEndian.AppendUint32(b, 20)
		b = binary.LittleEndian.AppendUint32(b, uint32(at+4))
		b = binary.LittleEndian.AppendUint32(b, uint32(text+uint64(i)-ProgramFrame-uint64(at+8)))
		b = binary.LittleEndian.AppendUint32(b, 1)
		b = append(b, 0, 0x0e, byte(8+8*(i%16)), 0, 0, 0, 0, 0)
	}
	return append(b, 0, 0, 0, 0)
}

// FrameSection returns an .eh_frame for Program.
func FrameSection(data []byte) Section {
	return Section{
		Name: ".eh_frame", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: ProgramFrame,
		Data: data, Align: 8,
	}
}

// Sparse moves a section of a 64-bit little-endian file to the file's end and makes it size
// bytes long. The caller must append a hole of that length when writing the file.
func Sparse(image []byte, section int, size uint64) []byte {
	o := binary.LittleEndian
	header := image[o.Uint64(image[40:])+uint64(64*section):]
	o.PutUint64(header[24:], uint64(len(image)))
	o.PutUint64(header[32:], size)
	return image
}

// NestedCIEs returns an .eh_frame of n descriptions, each of which refers to another common
// entry. These are nested, so that each extends to the end of size bytes.
func NestedCIEs(n, size int) []byte {
	o := binary.LittleEndian
	const step = 24
	var b []byte
	for i := range n {
		// Its operations begin with an expression that extends to that of the next entry.
		b = o.AppendUint32(b, uint32(size-step*i-4))
		b = append(b, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0f)
		b = append(b, 22, 0, 0, 0, 0, 0)
	}
	b = append(b, make([]byte, size-len(b))...)
	for i := range n {
		at := len(b)
		b = o.AppendUint32(b, 16)
		b = o.AppendUint32(b, uint32(at+4-step*i))
		b = o.AppendUint32(b, uint32(i))
		b = o.AppendUint32(b, 1)
		b = append(b, 0, 0, 0, 0)
	}
	return append(b, 0, 0, 0, 0)
}

// SharedSFrame returns an .sframe section of version 2 for amd64 with n functions of one byte,
// which share the same rows, as many as fit in size bytes.
func SharedSFrame(n, size int) []byte {
	o := binary.LittleEndian
	const header, fde, row = 28, 20, 3
	rows := size / row
	b := []byte{0xe2, 0xde, 2, 1, 3, 0, 0xf8, 0}
	for _, v := range []int{n, rows, rows * row, 0, n * fde} {
		b = o.AppendUint32(b, uint32(v))
	}
	for i := range n {
		for _, v := range []int{ProgramText + i - ProgramFrame, 1, 0, rows} {
			b = o.AppendUint32(b, uint32(v))
		}
		b = append(b, 0, 0, 0, 0)
	}
	for range rows {
		b = append(b, 0, 3, 8) // from 0 on: sp+8
	}
	return b
}

// SymbolTable describes a symbol table: n symbols for code, 64-bit little-endian.
type SymbolTable struct {
	N      int
	Step   uint64 // between the values of consecutive symbols
	Size   uint64 // of each
	Shrink uint64 // difference between the sizes of consecutive symbols
	Names  int    // length of each symbol's own name, all of them parts of one string
	Text   string // repeated to make the names; empty means "a"
}

// Sections returns .symtab and .strtab. The symbols are in the first section, from ProgramText
// on. The sections are linked by name.
func (s SymbolTable) Sections() []Section {
	o := binary.LittleEndian
	b := make([]byte, 24, 24*(s.N+1))
	text := []byte(s.Text)
	if len(text) == 0 {
		text = []byte{'a'}
	}
	for i := range s.N {
		b = o.AppendUint32(b, uint32(1+i*len(text)%max(s.Names-s.Names%len(text), 1)))
		b = append(b, 0x12, 0, 1, 0) // a global function in section 1
		b = o.AppendUint64(b, ProgramText+uint64(i)*s.Step)
		b = o.AppendUint64(b, s.Size-uint64(i)*s.Shrink)
	}
	names := append([]byte{0}, bytes.Repeat(text, (2*s.Names+8)/len(text))...)
	return []Section{
		{Name: ".symtab", Type: elf.SHT_SYMTAB, Data: b, Align: 8, Link: ".strtab", Entsize: 24},
		{Name: ".strtab", Type: elf.SHT_STRTAB, Data: append(names, 0)},
	}
}

// Compressed returns the sections compressed, each repeated until it is n bytes longer.
func (s SymbolTable) Compressed(n int) []Section {
	out := s.Sections()
	for i := range out {
		out[i].Flags = elf.SHF_COMPRESSED
		out[i].Data = Compressed(out[i].Data, n, out[i].Data...)
	}
	return out
}

// ManyTables returns a program with n section headers of .symtab for the same table.
func ManyTables(n int, table SymbolTable) []byte {
	s := table.Sections()
	for range n - 1 {
		s = append(s, Section{Name: ".symtab", Type: elf.SHT_SYMTAB, Link: ".strtab", Entsize: 24})
	}
	image, o := Program(s...).Bytes(), binary.LittleEndian
	headers := image[o.Uint64(image[40:]):]
	const first, bytesOf = 2, 64 // after the null section and .text
	for i := range n - 1 {
		copy(headers[bytesOf*(first+2+i)+24:][:16], headers[bytesOf*first+24:]) // offset and size
	}
	return image
}

// ManySections returns a program with one symbol and n more section headers, each for the same
// size bytes.
func ManySections(n int, typ elf.SectionType, size uint64) []byte {
	o := binary.LittleEndian
	image := Program(SymbolTable{N: 1, Size: 16, Names: 1}.Sections()...).Bytes()
	const bytesOf = 64
	old := o.Uint64(image[40:])
	count := int(o.Uint16(image[60:]))
	headers := slices.Clone(image[old:][:bytesOf*count])
	one := slices.Clone(headers[2*bytesOf : 3*bytesOf]) // .symtab
	o.PutUint32(one[4:], uint32(typ))
	o.PutUint64(one[32:], size)
	if typ == elf.SHT_PROGBITS {
		o.PutUint64(one[8:], uint64(elf.SHF_ALLOC))
		o.PutUint64(one[16:], ProgramFrame)
	}
	o.PutUint64(image[40:], uint64(len(image)))
	o.PutUint16(image[60:], 0) // extended numbering
	o.PutUint64(headers[32:], uint64(count+n))
	image = append(image, headers...)
	return append(image, bytes.Repeat(one, n)...)
}

// doublingPairs returns a function of the mangled names of C++ functions whose last parameter
// is a pair of pairs of pairs, with each type written once: its readable form is 2^depth times
// as long.
func doublingPairs(depth int) func(i int) string {
	var b strings.Builder
	b.WriteString("St4pairIiiE")
	for k := range depth - 1 { // S_ is std::pair, and the others its instances
		ref := "S" + strings.ToUpper(strconv.FormatInt(int64(k), 36)) + "_"
		b.WriteString("S_I" + ref + ref + "E")
	}
	return func(i int) string {
		name := fmt.Sprintf("f%d", i)
		return fmt.Sprintf("_Z%d%s%s", len(name), name, b.String())
	}
}

// doublingTuples returns a function of such names of Rust, of tuples.
func doublingTuples(depth int) func(i int) string {
	return func(i int) string {
		name := fmt.Sprintf("_RINvC1a%d%s", len(fmt.Sprint(i))+1, "f"+fmt.Sprint(i))
		at := len(name) - 2 // back references count from behind the "_R"
		name += "TllE"
		for range depth - 1 {
			next := len(name) - 2
			ref := "B" + base62(at) + "_"
			name += "T" + ref + ref + "E"
			at = next
		}
		return name + "E"
	}
}

// base62 returns a number as Rust's names have it.
func base62(n int) string {
	if n == 0 {
		return ""
	}
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var b []byte
	for n--; ; n /= 62 {
		b = append(b, digits[n%62])
		if n < 62 {
			break
		}
	}
	slices.Reverse(b)
	return string(b)
}

// Versions returns a .dynsym of one function, and n versions that the file defines, each with
// its own name of the given length, all parts of one string.
func Versions(n, names int) []Section {
	o := binary.LittleEndian
	const size = 20 + 8 // Elf64_Verdef and Elf64_Verdaux
	var defs []byte
	for i := range n {
		defs = o.AppendUint16(o.AppendUint16(defs, 1), 0)
		defs = o.AppendUint16(o.AppendUint16(defs, uint16(2+i%30_000)), 1)
		defs = o.AppendUint32(o.AppendUint32(o.AppendUint32(defs, 0), 20), size)
		defs = o.AppendUint32(o.AppendUint32(defs, uint32(i%names)), 0)
	}
	symbol := append(make([]byte, 24), 1, 0, 0, 0, 0x12, 0, 1, 0)
	symbol = o.AppendUint64(o.AppendUint64(symbol, ProgramText), 16)
	return []Section{
		{Name: ".dynsym", Type: elf.SHT_DYNSYM, Data: symbol, Align: 8, Link: ".dynstr", Entsize: 24},
		{Name: ".dynstr", Type: elf.SHT_STRTAB, Data: append(bytes.Repeat([]byte{'a'}, 2*names), 0)},
		{Name: ".gnu.version", Type: elf.SHT_GNU_VERSYM, Data: []byte{0, 0, 2, 0}, Link: ".dynsym"},
		{Name: ".gnu.version_d", Type: elf.SHT_GNU_VERDEF, Data: defs, Link: ".dynstr", Align: 4},
	}
}
