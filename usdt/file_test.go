package usdt_test

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/usdt"
)

// note is a probe as the assembler writes it.
type note struct {
	pc, base, semaphore  uint64
	provider, name, args string
}

func (n note) append(dst []byte, f *elfbuild.File) []byte {
	desc := bytes.Join([][]byte{f.Word(n.pc), f.Word(n.base), f.Word(n.semaphore), []byte(n.provider + "\x00" + n.name + "\x00" + n.args + "\x00")}, nil)
	return elfnotes.Append(dst, elfnotes.Note{Owner: "stapsdt", Type: 3, Desc: desc, Order: f.Order}, 4)
}

// Where the test program has its parts.
const (
	textAddr  = 0x1100
	baseAddr  = 0x2200
	semAddr   = 0x3300
	dataAddr  = 0x4400
	textBytes = "\x90\x0f\x1f\x44\x00\x00\x90\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\x90\xc3\xcc"
)

func program(machine elf.Machine, notes ...note) *elfbuild.File {
	f := &elfbuild.File{Machine: machine}
	if machine == elf.EM_386 {
		f.Class = elf.ELFCLASS32
	}
	if machine == elf.EM_S390 {
		f.Order = binary.BigEndian
	}
	var b []byte
	for _, n := range notes {
		b = n.append(b, f)
	}
	f.Sections = []elfbuild.Section{
		{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: textAddr, Data: []byte(textBytes)},
		{Name: ".stapsdt.base", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: baseAddr, Data: []byte{0}},
		{Name: ".probes", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE, Addr: semAddr, Data: make([]byte, 8)},
		{Name: ".data", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE, Addr: dataAddr, Data: make([]byte, 64)},
		{Name: ".note.stapsdt", Type: elf.SHT_NOTE, Data: b, Align: 4},
	}
	return f
}

func open(t *testing.T, f *elfbuild.File) *usdt.File {
	t.Helper()
	file, err := usdt.NewFile(bytes.NewReader(f.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// describe prints a site in one line.
func describe(s usdt.Site) string {
	ops := make([]string, len(s.Args))
	for i, a := range s.Args {
		ops[i] = a.Operand.String()
		if a.Reason != usdt.ReasonNone {
			ops[i] += "!" + a.Reason.String()
		}
	}
	return fmt.Sprintf("%s:%s %#x %v sem %#x [%s]", s.Provider, s.Name, s.PC, cmp.Or(s.Nop, "none"), s.Semaphore, strings.Join(ops, ", "))
}

func sites(t *testing.T, f *elfbuild.File) []string {
	t.Helper()
	list, err := open(t, f).Sites()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = describe(s)
		if s.Err != nil {
			out[i] += " " + s.Err.Error()
		}
	}
	return out
}

func compare(t *testing.T, got []string, want ...string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got:\n%s\nwant:\n%s", g, w)
	}
}

func TestSites(t *testing.T) {
	f := program(elf.EM_X86_64,
		note{textAddr, baseAddr, semAddr, "app", "one", "8@%rdi -4@$5"},
		note{textAddr + 6, baseAddr, 0, "app", "two", ""},
		note{textAddr + 1, baseAddr, 0, "app", "three", ""},
		note{textAddr + 17, baseAddr, semAddr + 2, "app", "one", "-4@%eax"},
		note{textAddr + 18, baseAddr, 0, "app", "four", ":"},
	)
	compare(t, sites(t, f),
		"app:one 0x1100 nop+nop5 sem 0x3300 [r5, 5]",
		"app:two 0x1106 nop+nop10 sem 0x0 []",
		"app:three 0x1101 nop5 sem 0x0 []",
		"app:one 0x1111 nop sem 0x3302 [r0]",
		"app:four 0x1112 none sem 0x0 []",
	)
	probes, err := open(t, f).Probes()
	if err != nil || len(probes) != 4 || len(probes[0].Sites) != 2 || probes[1].Name != "two" {
		t.Fatalf("probes: %+v, %v", probes, err)
	}
	// Offsets are those of the bytes themselves.
	image := f.Bytes()
	for _, s := range probes[0].Sites {
		if image[s.Offset] != 0x90 {
			t.Errorf("offset %#x holds %#x", s.Offset, image[s.Offset])
		}
		if s.SemaphoreOffset%0x1000 != s.Semaphore%0x1000 {
			t.Errorf("semaphore at %#x has offset %#x", s.Semaphore, s.SemaphoreOffset)
		}
	}
}

func TestPrelink(t *testing.T) {
	f := program(elf.EM_X86_64, note{textAddr + 0x10000, baseAddr + 0x10000, semAddr + 0x10000, "app", "one", ""})
	compare(t, sites(t, f), "app:one 0x1100 nop+nop5 sem 0x3300 []")
	// A note without a base, or a file without the section, is taken as it is.
	f = program(elf.EM_X86_64, note{textAddr, 0, semAddr, "app", "one", ""})
	compare(t, sites(t, f), "app:one 0x1100 nop+nop5 sem 0x3300 []")
	f = program(elf.EM_386, note{0xffff1100, 0xffff2200, 0, "app", "one", "4@%eax"})
	compare(t, sites(t, f), "app:one 0x1100 nop+nop5 sem 0x0 [r0]")
}

// Peers find the semaphore by the header of .probes and take offset 0, which
// never fires, where a tool renamed it.
func TestSemaphoreNeedsNoSection(t *testing.T) {
	f := program(elf.EM_X86_64, note{textAddr, baseAddr, semAddr + 2, "app", "one", ""})
	f.Sections[2].Name = ".data.probes"
	list, err := open(t, f).Sites()
	if err != nil || list[0].Err != nil || list[0].SemaphoreOffset == 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestHostileSites(t *testing.T) {
	f := program(elf.EM_X86_64,
		note{0x99999999, baseAddr, 0, "app", "pc", ""},
		note{textAddr, baseAddr, 0x99999999, "app", "semaphore", ""},
		note{textAddr, baseAddr, 0, "app", "thirteen", strings.Repeat("8@%rdi ", 13)},
		note{textAddr, baseAddr, 0, "app", "bad", "8@%rax 8@?"},
		note{textAddr, baseAddr, 0, "app", "huge", "4294967288@%rdi"},
		note{textAddr, baseAddr, 0, "app", "good", "8@%rdi"},
	)
	list, err := open(t, f).Sites()
	if err != nil || len(list) != 6 {
		t.Fatalf("%v, %v", list, err)
	}
	var address *usdt.AddressError
	var syntax *usdt.SyntaxError
	if !errors.As(list[0].Err, &address) || address.What != "pc" {
		t.Errorf("pc: %v", list[0].Err)
	}
	if !errors.As(list[1].Err, &address) || address.What != "semaphore" {
		t.Errorf("semaphore: %v", list[1].Err)
	}
	for i, args := range map[int]int{2: 12, 3: 1, 4: 0} {
		if !errors.As(list[i].Err, &syntax) || len(list[i].Args) != args {
			t.Errorf("%s: %d arguments, %v", list[i].Name, len(list[i].Args), list[i].Err)
		}
	}
	if list[5].Err != nil {
		t.Errorf("good: %v", list[5].Err)
	}

	// Notes that are none: the others are still there.
	f = program(elf.EM_X86_64, note{textAddr, baseAddr, 0, "", "x", ""}, note{textAddr, baseAddr, 0, "app", "good", ""})
	unterminated := elfnotes.Append(nil, elfnotes.Note{Owner: "stapsdt", Type: 3, Desc: append(make([]byte, 24), "p\x00n\x00args"...)}, 4)
	f.Sections[4].Data = append(unterminated, f.Sections[4].Data...)
	f.Sections[4].Data = append(f.Sections[4].Data, 8, 0, 0, 0, 0xf0, 0xff, 0xff, 0xff, 3, 0, 0, 0, 's')
	list, err = open(t, f).Sites()
	if err == nil || len(list) != 1 || list[0].Name != "good" {
		t.Errorf("%v, %v", list, err)
	}
}

func TestNoBitsAndNoSections(t *testing.T) {
	n := note{textAddr, baseAddr, semAddr, "app", "one", ""}
	// A separate debug file.
	f := program(elf.EM_X86_64, n)
	for i := range f.Sections[:4] {
		f.Sections[i].Type, f.Sections[i].Size, f.Sections[i].Data = elf.SHT_NOBITS, uint64(len(f.Sections[i].Data)), nil
	}
	list, err := open(t, f).Sites()
	var address *usdt.AddressError
	if err != nil || len(list) != 1 || !errors.As(list[0].Err, &address) {
		t.Errorf("debug file: %+v, %v", list, err)
	}
	// Notes in a segment only.
	f = program(elf.EM_X86_64, n)
	f.Segments = []elfbuild.Segment{{Type: elf.PT_NOTE, Section: ".note.stapsdt", Align: 4}}
	f.NoSections = true
	compare(t, sites(t, f), "app:one 0x1100 nop+nop5 sem 0x3300 []")
	f.Segments = nil
	compare(t, sites(t, f))
}

func TestEmptyAndForeignFiles(t *testing.T) {
	for _, s := range []string{"", "\x7fELF", "#!/bin/sh\n", "\x7fELF\x02\x01\x01"} {
		if _, err := usdt.NewFile(strings.NewReader(s)); err == nil {
			t.Errorf("%q: no error", s)
		}
	}
	f := program(elf.EM_SPARCV9, note{textAddr, baseAddr, 0, "app", "one", "8@%o0"})
	list, err := open(t, f).Sites()
	if err != nil || len(list) != 1 || !errors.Is(list[0].Err, errors.ErrUnsupported) {
		t.Errorf("%+v, %v", list, err)
	}
}

// onlyReaderAt has no method but ReadAt.
type onlyReaderAt struct{ r io.ReaderAt }

func (r onlyReaderAt) ReadAt(p []byte, off int64) (int, error) { return r.r.ReadAt(p, off) }

func TestSizeOfReader(t *testing.T) {
	b := program(elf.EM_X86_64, note{textAddr, baseAddr, 0, "app", "one", ""}).Bytes()
	f, err := usdt.NewFile(onlyReaderAt{bytes.NewReader(b)})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := f.Sites(); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestSymbols(t *testing.T) {
	local := func(name string, value uint64) elfbuild.Symbol {
		return elfbuild.Symbol{Name: name, Value: value, Type: elf.STT_OBJECT, Section: 4}
	}
	function := func(name string, value, size uint64) elfbuild.Symbol {
		return elfbuild.Symbol{Name: name, Value: value, Size: size, Type: elf.STT_FUNC, Section: 1}
	}
	file := func(name string) elfbuild.Symbol {
		return elfbuild.Symbol{Name: name, Type: elf.STT_FILE, Section: uint16(elf.SHN_ABS)}
	}
	symbols := []elfbuild.Symbol{
		file("a.c"), local("counter", dataAddr), local("onlya", dataAddr+8), function("fa", textAddr, 6),
		file("b.c"), local("counter", dataAddr+16), local("shadow", dataAddr+40), function("fb", textAddr+6, 11),
		{Name: "tls", Value: 8, Type: elf.STT_TLS, Section: 4},
		{Name: "shadow", Value: dataAddr + 32, Type: elf.STT_OBJECT, Bind: elf.STB_GLOBAL, Section: 4},
		{Name: "fg", Value: textAddr + 17, Size: 3, Type: elf.STT_FUNC, Bind: elf.STB_GLOBAL, Section: 1},
	}
	const args = "8@counter(%rip) 8@8+onlya(%rip) 8@shadow(%rip) 8@$onlya 8@nosuch(%rip) 8@onlya(,%rdi,8) 8@onlya@GOTPCREL(%rip) 16@onlya(%rip)"
	f := program(elf.EM_X86_64,
		note{textAddr, baseAddr, 0, "app", "a", args},
		note{textAddr + 6, baseAddr, 0, "app", "b", args},
		note{textAddr + 17, baseAddr, 0, "app", "g", "8@counter(%rip) 8@shadow(%rip) 8@onlya(%rip)"},
	)
	f.Symbols = symbols
	compare(t, sites(t, f),
		"app:a 0x1100 nop+nop5 sem 0x0 [*(pc+13056), *(pc+13072), *(pc+13088), &(pc+13064), *(nosuch)!symbol address is not known, *(pc+r5*8+13064), &(pc+13064), *(pc+13064)!value has no register's size]",
		"app:b 0x1106 nop+nop10 sem 0x0 [*(pc+13066), *(pc+13066), *(pc+13090), &(pc+13058), *(nosuch)!symbol address is not known, *(pc+r5*8+13058), &(pc+13058), *(pc+13058)!value has no register's size]",
		"app:g 0x1111 nop sem 0x0 [*(counter)!symbol is ambiguous, *(shadow)!symbol is ambiguous, *(pc+13047)]",
	)

	// Thread-local storage of a program, of a library, and arm64's parts.
	tls := note{textAddr, baseAddr, 0, "app", "t", "8@%fs:tls@tpoff 8@tls@dtpoff(%rbx) 8@%fs:4+tls@tpoff"}
	f = program(elf.EM_X86_64, tls)
	f.Symbols = symbols
	f.Segments = []elfbuild.Segment{{Type: elf.PT_TLS, Section: ".data", Memsz: 60, Align: 32}}
	compare(t, sites(t, f), "app:t 0x1100 nop+nop5 sem 0x0 [*(tp+tls)!thread-local symbol of a shared library, *(r3+8), *(tp+tls+4)!thread-local symbol of a shared library]")
	f.Type = elf.ET_EXEC
	compare(t, sites(t, f), "app:t 0x1100 nop+nop5 sem 0x0 [*(tp-56)!address is relative to the thread pointer, *(r3+8), *(tp-52)!address is relative to the thread pointer]")

	f = program(elf.EM_AARCH64, note{textAddr, baseAddr, 0, "app", "x", "8@[x0, #:lo12:onlya] 8@onlya+4 8@[x1, #:tprel_lo12:tls]"})
	f.Symbols, f.Type = symbols, elf.ET_EXEC
	f.Segments = []elfbuild.Segment{{Type: elf.PT_TLS, Section: ".data", Align: 8}}
	compare(t, sites(t, f), "app:x 0x1100 none sem 0x0 [*(r0+1032), &(pc+13068), *(r1+24)]")

	// i386: @GOTOFF needs no base register once the symbol is known.
	f = program(elf.EM_386, note{textAddr, baseAddr, 0, "app", "i", "4@4+onlya@GOTOFF(%ebx)"})
	f.Symbols = symbols
	compare(t, sites(t, f), "app:i 0x1100 nop+nop5 sem 0x0 [*(pc+13068)]")
}

// TestGOTSlot: a symbol of another library is read through the slot that the
// dynamic linker fills.
func TestGOTSlot(t *testing.T) {
	f := program(elf.EM_X86_64, note{textAddr, baseAddr, 0, "app", "g", "8@environ@GOTPCREL(%rip)"})
	f.DynSymbols = []elfbuild.Symbol{{Name: "environ", Bind: elf.STB_GLOBAL, Type: elf.STT_OBJECT}}
	rela := bytes.Join([][]byte{f.Word(dataAddr + 24), f.Word(1<<32 | uint64(elf.R_X86_64_GLOB_DAT)), f.Word(0)}, nil)
	f.Sections = append(f.Sections, elfbuild.Section{Name: ".rela.dyn", Type: elf.SHT_RELA, Data: rela, Align: 8, Link: ".dynsym", Entsize: 24})
	compare(t, sites(t, f), "app:g 0x1100 nop+nop5 sem 0x0 [*(pc+13080)]")
}

func TestByteOrder(t *testing.T) {
	f := program(elf.EM_S390, note{textAddr, baseAddr, 0, "app", "s", "4@160(%r15)"})
	list, err := open(t, f).Sites()
	if err != nil || !list[0].Args[0].BigEndian {
		t.Errorf("%+v, %v", list, err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add(program(elf.EM_X86_64, note{textAddr, baseAddr, semAddr, "app", "one", "8@%rdi 8@sym(%rip)"}).Bytes())
	f.Add(program(elf.EM_386, note{textAddr, baseAddr, semAddr, "app", "one", "4@sym@GOT(%ebx)"}).Bytes())
	f.Add(program(elf.EM_S390, note{textAddr, baseAddr, semAddr, "app", "one", "4@160(%r15)"}).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := usdt.NewFile(bytes.NewReader(b))
		if err != nil {
			return
		}
		defer file.Close()
		list, _ := file.Sites()
		for _, s := range list {
			if s.Err == nil && (s.Offset >= uint64(len(b)) || s.Semaphore != 0 && s.SemaphoreOffset >= uint64(len(b))) {
				t.Fatalf("%+v lies outside a file of %d bytes", s, len(b))
			}
			if len(s.Args) > usdt.MaxArgs || s.Provider == "" {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// FuzzParseArgs checks that parsing is the inverse of printing, and that every
// argument can be evaluated without a panic.
func FuzzParseArgs(f *testing.F) {
	machines := []elf.Machine{elf.EM_X86_64, elf.EM_386, elf.EM_AARCH64, elf.EM_ARM, elf.EM_RISCV, elf.EM_PPC64, elf.EM_S390, elf.EM_LOONGARCH}
	for name, machine := range corpora {
		for i, line := range corpus(f, name) {
			if i%10 == 0 {
				for j, m := range machines {
					if m == machine {
						f.Add(byte(j), line)
					}
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, m byte, s string) {
		machine := machines[int(m)%len(machines)]
		args, err := usdt.ParseArgs(machine, s)
		var syntax *usdt.SyntaxError
		if err != nil && (!errors.As(err, &syntax) || syntax.Column < 1 || syntax.Column > len(s)+1) {
			t.Fatalf("%q: %v", s, err)
		}
		at := 0
		for _, a := range args {
			i := strings.Index(s[at:], a.String())
			if i < 0 || strings.Trim(s[at:at+i], " ") != "" {
				t.Fatalf("%q: %q is not what stands there", s, a)
			}
			at += i + len(a.String())
			again, err := usdt.ParseArgs(machine, a.String())
			if err != nil || len(again) != 1 || again[0] != a {
				t.Fatalf("%q: %+v, again %+v, %v", s, a, again, err)
			}
			checkArg(t, a)
			_, _ = a.Eval(regs{}, page{}, nil)
		}
		if err == nil && strings.Trim(s[at:], " ") != "" && s[0] != ':' {
			t.Fatalf("%q: %q is left over", s, s[at:])
		}
	})
}
