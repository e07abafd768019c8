package elfbuild

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Bomb is a file that any user may write, and that takes much work to read.
type Bomb struct {
	Name string
	Kind Kind
	File string        // the name that it must have, if any
	Hole int64         // length of the hole after the bytes that Make returns
	Make func() []byte // returns the contents
}

// Kind is the kind of a file.
type Kind uint8

// These are the kinds of files.
const (
	ELF         Kind = iota // of a process on amd64, with code at ProgramText
	PerfMap                 // /tmp/perf-PID.map
	JITDump                 // jit-PID.dump
	LinkerCache             // /etc/ld.so.cache
	Core                    // a core file
	Perf                    // perf.data
	Kernel                  // a kernel or a kernel module, perhaps compressed
	Recorded                // a file of a recording: see Bomb.File
)

// Bombs returns all bombs. The readers of a kind of files must be tested with all of that
// kind.
func Bombs() []Bomb {
	return slices.Concat(sectionBombs(), symbolBombs(), frameBombs(), goBombs(), dwarfBombs(),
		usdtBombs(), perfBombs(), otherBombs(), coreBombs(), kernelBombs(), recordingBombs())
}

// BombNamed returns the bomb with that name. Its Make is nil if there is none.
func BombNamed(name string) Bomb {
	for _, b := range Bombs() {
		if b.Name == name {
			return b
		}
	}
	return Bomb{}
}

// program returns a Bomb that is Program with these sections.
func program(name string, sections func() []Section) Bomb {
	return Bomb{Name: name, Make: func() []byte { return Program(sections()...).Bytes() }}
}

// one is program with one section.
func one(name string, section func() Section) Bomb {
	return program(name, func() []Section { return []Section{section()} })
}

// compressed returns a section of head and n zeros, or n bytes of repeat.
func compressed(name string, head []byte, n int, repeat ...byte) Section {
	return Section{
		Name: name, Type: elf.SHT_PROGBITS, Flags: elf.SHF_COMPRESSED,
		Data: Compressed(head, n, repeat...),
	}
}

// sectionBombs returns files that are larger than their storage because of compression or
// holes.
func sectionBombs() []Bomb {
	sparse := func(symbols int, size uint64) func() []byte {
		table := SymbolTable{N: symbols, Names: 4}
		return func() []byte { return Sparse(Program(table.Sections()...).Bytes(), 2, size) }
	}
	return []Bomb{
		one("compressed", func() Section { return compressed(".debug_info", nil, 128<<20) }),
		program("compressed-sections", func() (out []Section) {
			few := compressed("", nil, 3<<20)
			for i := range 64 {
				few.Name = fmt.Sprintf(".debug_%d", i)
				out = append(out, few)
			}
			return out
		}),
		program("compressed-DWARF", func() []Section {
			out := SymbolTable{N: 1, Size: 16, Names: 1}.Sections()
			zeros := compressed("", nil, 128<<20)
			for _, zeros.Name = range []string{".debug_abbrev", ".debug_info", ".debug_line", ".debug_str"} {
				out = append(out, zeros)
			}
			return out
		}),
		program("compressed-symbols", func() []Section {
			return SymbolTable{N: 1, Size: 16, Names: 4}.Compressed(96 << 20)
		}),
		program("compressed-symbols-of-a-large-file", func() []Section {
			noise := make([]byte, 8<<20)
			rand.NewChaCha8([32]byte{}).Read(noise)
			filler := Section{Name: ".filler", Type: elf.SHT_PROGBITS, Data: noise}
			return append(SymbolTable{N: 1, Size: 16, Names: 4}.Compressed(96<<20), filler)
		}),
		one("gnu-debugdata", func() Section {
			return Section{Name: ".gnu_debugdata", Type: elf.SHT_PROGBITS, Data: xzZeros(48 << 20)}
		}),
		{Name: "hole", Hole: 4 << 30, Make: sparse(8, 4<<30)},
		{Name: "endless-section", Make: sparse(8, 1<<63)},
	}
}

// symbolBombs returns files with malicious symbol tables.
func symbolBombs() []Bomb {
	const n = 1 << 20
	table := func(name string, t SymbolTable) Bomb { return program(name, t.Sections) }
	// n symbols, which have each of some names in turn
	names := func(name string, n, different int, text func(i int) string) Bomb {
		return program(name, func() []Section {
			s := SymbolTable{N: n, Step: 16, Size: 16, Names: 1}.Sections()
			strs := []byte{0}
			var at []uint32
			for i := range different {
				at = append(at, uint32(len(strs)))
				strs = append(append(strs, text(i)...), 0)
			}
			for i := range n {
				binary.LittleEndian.PutUint32(s[0].Data[24*(i+1):], at[i%different])
			}
			s[1].Data = strs
			return s
		})
	}
	return []Bomb{
		table("symbols", SymbolTable{N: 5 * n / 2, Step: 16, Size: 16, Names: 8}),
		table("named-symbols", SymbolTable{N: n, Step: 16, Size: 16, Names: 6 * n, Text: "ab\x00"}),
		table("fewer-named-symbols",
			SymbolTable{N: n / 4, Step: 16, Size: 16, Names: 6 * n / 4, Text: "ab\x00"}),
		table("aliases", SymbolTable{N: n, Size: 16, Names: 30000}),
		table("aliases-of-all-sizes", SymbolTable{N: n, Size: n, Shrink: 1, Names: 30000}),
		table("nested", SymbolTable{N: n / 2, Step: 1, Size: n, Shrink: 2, Names: 4}),
		table("scattered", SymbolTable{N: n, Step: 1 << 33, Size: 16, Names: 4}),
		table("long-names", SymbolTable{N: n / 4, Step: 16, Size: 16, Names: 32000}),
		table("long-names-of-one-place", SymbolTable{N: n / 4, Size: 16, Names: 32000}),
		table("long-mangled-names",
			SymbolTable{N: n / 4, Step: 16, Size: 16, Names: 32000, Text: "_Z1a"}),
		program("long-versions", func() []Section { return Versions(n/28, 32000) }),
		{Name: "empty-tables", Make: func() []byte { return ManySections(65_000, elf.SHT_SYMTAB, 0) }},
		{Name: "small-tables", Make: func() []byte { return ManySections(65_000, elf.SHT_SYMTAB, 24) }},
		{Name: "sections", Make: func() []byte { return ManySections(400_000, elf.SHT_PROGBITS, 16) }},
		{Name: "sections-of-an-object", Make: func() []byte {
			image := ManySections(400_000, elf.SHT_PROGBITS, 16)
			image[16] = byte(elf.ET_REL)
			return image
		}},
		names("one-C++-name", n/10, 1, doublingPairs(40)),
		names("C++-names", n/10, 2000, doublingPairs(40)),
		names("Rust-names", n/10, 2000, doublingTuples(40)),
		{Name: "tables-over-tables", Make: func() []byte {
			return ManyTables(2000, SymbolTable{N: 3000, Step: 16, Size: 16, Names: 4})
		}},
	}
}

// frameBombs returns files with malicious call frame information.
func frameBombs() []Bomb {
	head := Frames(ProgramText, 1)
	head = head[:len(head)-4]
	last := head[len(head)-24:]
	frames := func(name string, data func() []byte) Bomb {
		return one(name, func() Section { return FrameSection(data()) })
	}
	return []Bomb{
		one("compressed-eh_frame", func() Section {
			s := FrameSection(Compressed(head, 96<<20, last...))
			s.Flags |= elf.SHF_COMPRESSED
			return s
		}),
		one("compressed-debug_frame", func() Section {
			return compressed(".debug_frame", head, 256<<20, last...)
		}),
		frames("frame-descriptions", func() []byte { return Frames(ProgramText, 4<<20) }),
		frames("nested-CIEs", func() []byte { return NestedCIEs(40<<10, 4<<20) }),
		one("shared-sframe-rows", func() Section {
			s := FrameSection(SharedSFrame(25<<10, 512<<10))
			s.Name = ".sframe"
			return s
		}),
	}
}

// goBombs returns files with malicious function tables of Go programs.
func goBombs() []Bomb {
	table := func(name string, g GoTable) Bomb { return one(name, g.Section) }
	stripped := func(name string, g GoTable) Bomb {
		return Bomb{Name: name, Make: func() []byte {
			f := Program(g.Section())
			f.NoSections = true
			return f.Bytes()
		}}
	}
	return []Bomb{
		table("Go-steps", GoTable{Functions: 1, Steps: 4 << 20}),
		table("Go-functions-of-many-steps", GoTable{Functions: 1000, Steps: 4 << 20}),
		table("Go-functions", GoTable{Functions: 100_000, Steps: 20_000}),
		table("Go-long-names", GoTable{Functions: 200_000, Steps: 16, Names: 32000}),
		stripped("Go-functions-without-sections", GoTable{Functions: 100_000, Steps: 20_000}),
		stripped("Go-long-names-without-sections", GoTable{Functions: 200_000, Steps: 16, Names: 32000}),
		{Name: "Go-table-heads", Make: func() []byte {
			head := []byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}
			f := Program(Section{
				Name: ".data", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: ProgramFrame,
				Data: bytes.Repeat(head, 1<<17),
			})
			f.NoSections = true
			return f.Bytes()
		}},
	}
}

// dwarfBombs returns files with malicious DWARF: a decoded row, call or unit takes ten times
// as much memory as in the file, or more. Some become very small when compressed.
func dwarfBombs() (out []Bomb) {
	const n = 8 << 20 // bytes, about
	for _, b := range []struct {
		name string
		make func() DWARF
		zip  bool
	}{
		{"line-rows", func() DWARF { return LineRows(n) }, true},
		{"one-line-program-of-many-units", func() DWARF {
			return Units(n/32, LineRows(n/4).Line)
		}, false},
		{"line-programs-over-each-other", func() DWARF { return LinesOverLines(100_000) }, false},
		{"line-sequences", func() DWARF { return LineSequences(n / 17) }, false},
		{"files-and-directories", func() DWARF { return LineFiles(n / 9) }, false},
		{"placed-calls", func() DWARF { return PlacedCalls(n / 10) }, false},
		{"inlined-calls", func() DWARF { return InlinedCalls(n) }, true},
		{"functions", func() DWARF { return Functions(n / 10) }, false},
		{"deep-entries", func() DWARF { return DeepEntries(n) }, true},
		{"units", func() DWARF { return Units(n/32, nil) }, true},
		{"long-DWARF-names", func() DWARF { return LongNames(n/64, 8000) }, false},
		{"one-endless-name", func() DWARF { return LongNames(n/64, n) }, false},
		{"abbreviations", func() DWARF { return Abbrevs(n / 7) }, false},
		{"attributes", func() DWARF { return Attributes(n / 206) }, false},
	} {
		out = append(out, program(b.name, func() []Section { return withFunction(b.make()) }))
		if !b.zip {
			continue
		}
		out = append(out, program(b.name+"-compressed", func() []Section {
			sections := withFunction(b.make())
			for i := range sections {
				if s := &sections[i]; len(s.Data) > 1<<20 {
					s.Flags, s.Data = elf.SHF_COMPRESSED, Compressed(s.Data, 0)
				}
			}
			return sections
		}))
	}
	return out
}

// withFunction returns the sections of DWARF and of a symbol table with one symbol, a.
func withFunction(d DWARF) []Section {
	return append(SymbolTable{N: 1, Size: 1 << 20, Names: 1}.Sections(), d.Sections()...)
}

// usdtBombs returns files with malicious notes of USDT probes.
func usdtBombs() []Bomb {
	notes := func(name string, data func() []byte) Bomb {
		return one(name, func() Section { return stapsdtSection(0, data()) })
	}
	return []Bomb{
		notes("argument-sets", func() (sites []byte) {
			for i := range 16_000 {
				sites = append(sites, Stapsdt(fmt.Sprintf("8@$%d", i))...)
			}
			return sites
		}),
		notes("one-site", func() []byte { return bytes.Repeat(Stapsdt("8@$1"), 200_000) }),
		notes("long-arguments", func() []byte {
			return bytes.Repeat(Stapsdt(strings.Repeat("8@$1 ", 12_000)), 100)
		}),
		one("compressed-notes", func() Section {
			return stapsdtSection(elf.SHF_COMPRESSED, Compressed(nil, 64<<20, Stapsdt("8@$1")...))
		}),
		notes("empty-notes", func() []byte { return make([]byte, 8<<20) }),
	}
}

// otherBombs returns files that are not programs.
func otherBombs() []Bomb {
	lines := func(line string, n int) func() []byte {
		return func() []byte { return bytes.Repeat([]byte(line), n/len(line)) }
	}
	return []Bomb{
		{Name: "short-lines", Kind: PerfMap, Make: lines("1000 1 a\n", 32<<20)},
		{
			Name: "long-lines", Kind: PerfMap,
			Make: lines("10 10 "+strings.Repeat("a", 60_000)+"\n", 64<<20),
		},
		{Name: "short-functions", Kind: JITDump, Make: func() []byte { return jitDump(400_000, 1) }},
		{Name: "long-functions", Kind: JITDump, Make: func() []byte { return jitDump(1000, 60_000) }},
		{Name: "long-paths", Kind: LinkerCache, Make: func() []byte { return linkerCache(43_000) }},
	}
}
