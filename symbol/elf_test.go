package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func openBytes(tb testing.TB, b []byte, opts *ELFOptions) *ELF {
	tb.Helper()
	e, err := NewELF(bytes.NewReader(b), int64(len(b)), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	return e
}

const (
	fn, obj, notype    = elf.STT_FUNC, elf.STT_OBJECT, elf.STT_NOTYPE
	local, global, wk  = elf.STB_LOCAL, elf.STB_GLOBAL, elf.STB_WEAK
	at                 = testText
	exact, nosize, no_ = ConfidenceExact, ConfidenceNoSize, ConfidenceNone
)

// testSyms is what TestSymbols asks about.
var testSyms = []testSym{
	{"outer", at + 0x00, 0x40, fn, global, false},
	{"inner", at + 0x10, 0x10, fn, local, false},
	{"innermost", at + 0x14, 0x4, fn, local, false},
	{"label", at + 0x30, 0, notype, global, false},
	{"__alias", at + 0x60, 0x10, fn, global, false},
	{"weak", at + 0x60, 0x10, fn, wk, false},
	{"alias", at + 0x60, 0x10, fn, global, false},
	{"aliased", at + 0x60, 0x10, fn, global, false},
	{"asm", at + 0x80, 0, notype, global, false},
	{"after", at + 0x100, 0x10, fn, global, false},
	{"overlap1", at + 0x200, 0x20, fn, global, false},
	{"overlap2", at + 0x210, 0x20, fn, global, false},
	{"short", at + 0x300, 0x10, fn, global, false},
	{"long", at + 0x300, 0x20, fn, global, false},
	{"last", at + 0xff0, 0, notype, global, false},
	{"$x", at + 0x108, 0, notype, local, false},
	{".Llocal", at + 0x10a, 0, notype, local, false},
	{"table", at + 0x400, 0x20, obj, local, false},
	{"variable", testData + 8, 8, obj, global, true},
	{"_ZN2ns3addEii", at + 0x500, 0x10, fn, global, false},
	{"_RNvCs5F6nG8_4demo4main", at + 0x520, 0x10, fn, global, false},
	{"memcpy@@GLIBC_2.14", at + 0x540, 0x10, fn, global, false},
	{"indirect", at + 0x560, 0x10, elf.STT_GNU_IFUNC, global, false},
	{"parted", at + 0x580, 0x10, fn, global, false},
	{"parted.cold", at + 0x5a0, 0x8, fn, local, false},
	{"parted.part.0", at + 0x5b0, 0x8, fn, local, false},
}

var symbolCases = []struct {
	addr   uint64
	name   string
	offset uint64
	conf   Confidence
}{
	{at + 0x0, "outer", 0, exact},
	{at + 0x0f, "outer", 0xf, exact},
	{at + 0x10, "inner", 0, exact},
	{at + 0x15, "innermost", 1, exact},
	{at + 0x18, "inner", 8, exact},
	{at + 0x20, "outer", 0x20, exact},
	{at + 0x35, "outer", 0x35, exact}, // not label: it lies inside
	{at + 0x40, "", 0, no_},
	{at + 0x5f, "", 0, no_},
	{at + 0x61, "alias", 1, exact},
	{at + 0x70, "", 0, no_},
	{at + 0x80, "asm", 0, nosize},
	{at + 0xff, "asm", 0x7f, nosize},
	{at + 0x10c, "after", 0xc, exact},
	{at + 0x110, "", 0, no_},
	{at + 0x20f, "overlap1", 0xf, exact},
	{at + 0x211, "overlap2", 1, exact},
	{at + 0x22f, "overlap2", 0x1f, exact},
	{at + 0x308, "short", 8, exact},
	{at + 0x318, "long", 0x18, exact},
	{at + 0x408, "table", 8, exact},
	{at + 0x504, "ns::add(int, int)", 4, exact},
	{at + 0x544, "memcpy", 4, exact},
	{at + 0x564, "indirect", 4, exact},
	{at + 0x58f, "parted", 0xf, exact},
	{at + 0x590, "", 0, no_},
	{at + 0x5a7, "parted.cold", 7, exact},
	{at + 0x5b0, "parted.part.0", 0, exact},
	{at + 0xfff, "last", 0xf, nosize},
	{at + 0x1000, "", 0, no_}, // past the section
	{at - 1, "", 0, no_},
	{testData + 9, "variable", 1, exact},
	{testData + 0x20, "", 0, no_},
}

// TestSymbols asks the same of every class and byte order, of both tables and
// with extended section numbers.
func TestSymbols(t *testing.T) {
	for _, c := range []struct {
		name string
		file testFile
	}{
		{"symtab", testFile{syms: testSyms}},
		{"dynsym", testFile{dyn: testSyms}},
		{"both", testFile{syms: testSyms[:8], dyn: testSyms}},
		{"xindex", testFile{class: elf.ELFCLASS64, order: binary.LittleEndian, machine: elf.EM_AARCH64, xindex: true, syms: testSyms}},
		{"32-bit", testFile{class: elf.ELFCLASS32, order: binary.LittleEndian, machine: elf.EM_386, syms: testSyms}},
		{"big-endian", testFile{class: elf.ELFCLASS64, order: binary.BigEndian, machine: elf.EM_S390, syms: testSyms}},
		{"32-bit-big-endian", testFile{class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC, syms: testSyms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := openBytes(t, buildELF(t, c.file), &ELFOptions{Path: "/bin/test"})
			for _, q := range symbolCases {
				fr := e.Resolve(nil, []uint64{q.addr})
				if len(fr) != 1 {
					t.Fatalf("%#x: %d frames", q.addr, len(fr))
				}
				f := fr[0]
				if f.Name != q.name || f.Offset != q.offset || f.Confidence != q.conf || f.Module != "/bin/test" ||
					f.ModuleOffset != q.addr || (f.Name == "") != (f.Reason != ReasonNone) {
					t.Errorf("%#x: got %+v, want %s+%#x (%d)", q.addr, f, q.name, q.offset, q.conf)
				}
				if isData := q.addr >= testData || q.name == "table"; isData != (f.Kind == KindData) {
					t.Errorf("%#x: kind is %v", q.addr, f.Kind)
				}
			}
		})
	}
}

// TestAliasOrder asks for the same name whatever the order of the table.
func TestAliasOrder(t *testing.T) {
	syms := slices.Clone(testSyms)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rng.Shuffle(len(syms), func(i, j int) { syms[i], syms[j] = syms[j], syms[i] })
		e := openBytes(t, buildELF(t, testFile{syms: syms}), nil)
		for _, q := range symbolCases {
			if f := e.Resolve(nil, []uint64{q.addr}); f[0].Name != q.name {
				t.Fatalf("seed %d: %#x is %q, want %q", seed, q.addr, f[0].Name, q.name)
			}
		}
	}
}

func TestRawNames(t *testing.T) {
	e := openBytes(t, buildELF(t, testFile{syms: testSyms}), &ELFOptions{RawNames: true})
	if f := e.Resolve(nil, []uint64{at + 0x504}); f[0].Name != "_ZN2ns3addEii" {
		t.Errorf("got %q", f[0].Name)
	}
}

// hostFiles are files of this machine that differ in how they were made.
func hostFiles(t *testing.T) []string {
	if runtime.GOOS != "linux" {
		testenv.Need(t, testenv.OS("linux"))
	}
	var files []string
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{
		exe, "/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/libm.so.6", "/lib*/ld-linux-*.so.*", "/bin/bash",
		"/usr/lib/*-linux-gnu/libstdc++.so.6", "/usr/local/go/bin/go", "/usr/bin/node",
		"/usr/lib/*-linux-gnu/libLLVM-1?.so.1",
	} {
		m, _ := filepath.Glob(pattern)
		files = append(files, m...)
	}
	return files
}

// TestAgainstDebugELF compares with a search over all symbols, as debug/elf
// reads them, for random addresses of the code of this machine's files.
func TestAgainstDebugELF(t *testing.T) {
	for _, path := range hostFiles(t) {
		t.Run(strings.ReplaceAll(filepath.Base(path), " ", "_"), func(t *testing.T) {
			compareWithDebugELF(t, path)
		})
	}
}

func compareWithDebugELF(t *testing.T, path string) {
	ref, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	e, err := OpenELF(path, &ELFOptions{RawNames: true, DebugDirs: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	syms, _ := ref.Symbols()
	dyn, _ := ref.DynamicSymbols()
	text := ref.Section(".text")
	isGo := ref.Section(".gopclntab") != nil
	if len(syms)+len(dyn) == 0 || isGo && len(syms) == 0 {
		testenv.Need(t, testenv.Missing("symbols in "+path, "stripped"))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	wrong, named := 0, 0
	var frames []Frame
	syms = append(syms, dyn...)
	for range 400 {
		addr := text.Addr + rng.Uint64N(text.Size)
		want := covering(ref, syms, addr)
		frames = e.Resolve(frames[:0], []uint64{addr})
		f := frames[len(frames)-1]
		if f.Name != "" {
			named++
		}
		switch {
		case f.Confidence == ConfidenceNoSize && len(want) == 0:
		case isGo && f.Kind == KindGo && len(want) == 0:
			t.Errorf("%#x: %s, but it is padding", addr, f.Name)
		case len(want) == 0 && f.Name == "" || slices.Contains(want, f.Name):
		case isGo && slices.Contains(want, strings.ReplaceAll(f.Name, "·", ".")):
			// The runtime's tables keep the dot of a local type, which the linker
			// replaces in symbols.
		default:
			if wrong++; wrong < 5 {
				t.Errorf("%#x: got %q+%#x, want one of %q", addr, f.Name, f.Offset, want)
			}
		}
	}
	t.Logf("%d of 400 named, %d wrong, %d symbols", named, wrong, len(syms))
}

// TestBytesPerSymbol holds the tables of this machine's files, names included, to
// 16 bytes for each symbol.
func TestBytesPerSymbol(t *testing.T) {
	n := 0
	for _, path := range hostFiles(t) {
		e, err := OpenELF(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range []bool{false, true} {
			tab, err := e.table(data)
			if err != nil {
				t.Fatal(err)
			}
			if len(tab.kind) < 500 {
				continue
			}
			n++
			if per := float64(tab.bytes()) / float64(len(tab.kind)); per > 16 {
				t.Errorf("%s, data %v: %.1f bytes for each of %d symbols", path, data, per, len(tab.kind))
			}
		}
		e.Close()
	}
	if n == 0 {
		testenv.Need(t, testenv.Missing("a file with 500 symbols", "not found"))
	}
}

// TestNoSections names the functions of a library whose section table was cut
// off, by its dynamic segment.
func TestNoSections(t *testing.T) {
	m, _ := filepath.Glob("/usr/lib/*-linux-gnu/libstdc++.so.6")
	if len(m) == 0 {
		testenv.Need(t, testenv.Missing("libstdc++", "not found"))
	}
	b, err := os.ReadFile(m[0])
	if err != nil {
		t.Fatal(err)
	}
	whole := openBytes(t, b, nil)
	cut := slices.Clone(b)
	clear(cut[40:48]) // e_shoff
	clear(cut[60:64]) // e_shnum, e_shstrndx
	e := openBytes(t, cut, nil)
	n := 0
	for _, pc := range randomAddrs(whole, 2000) {
		want, got := whole.Resolve(nil, []uint64{pc})[0], e.Resolve(nil, []uint64{pc})[0]
		if want.Kind == KindPLT {
			continue // those need sections
		}
		if got.Name != want.Name || got.Offset != want.Offset {
			t.Fatalf("%#x: got %s+%#x, want %s+%#x", pc, got.Name, got.Offset, want.Name, want.Offset)
		}
		n++
	}
	if n < 1000 {
		t.Errorf("only %d addresses were compared", n)
	}
}

// TestPLT compares with the names that objdump gives the entries.
func TestPLT(t *testing.T) {
	testenv.Need(t, testenv.Tool("objdump"))
	for _, path := range []string{"/bin/bash", "/usr/bin/env", "/usr/bin/gdb"} {
		out, err := testenv.Command(t, "objdump", "-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got", path).Output()
		if err != nil {
			continue
		}
		e, err := OpenELF(path, &ELFOptions{RawNames: true, DebugDirs: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(out)) {
			var pc uint64
			var name string
			if k, _ := fmt.Sscanf(line, "%x <%s", &pc, &name); k != 2 || !strings.HasSuffix(name, "@plt>:") || strings.HasPrefix(name, "*ABS*") {
				continue
			}
			base, _, _ := strings.Cut(strings.TrimSuffix(name, "@plt>:"), "@")
			f := e.Resolve(nil, []uint64{pc + 1})[0]
			if f.Name != base+"@plt" || f.Kind != KindPLT || f.Offset != 1 {
				t.Errorf("%s: objdump says %s, got %+v", path, name, f)
			}
			n++
		}
		t.Logf("%s: %d entries", path, n)
		e.Close()
	}
}

// TestHostile reads this machine's files cut off at every 4 KiB (a sample of
// them) and with bits flipped: no panic, no endless work, and a reason where
// there is no name.
func TestHostile(t *testing.T) {
	m, _ := filepath.Glob("/lib*/ld-linux-*.so.*")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if len(m) == 0 {
		testenv.Need(t, testenv.Missing("a dynamic linker to read", "not found"))
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for _, path := range []string{m[0], exe} {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(b []byte, what string) {
			e, err := NewELF(bytes.NewReader(b), int64(len(b)), &ELFOptions{Source: true, DebugDirs: []string{}})
			if err != nil {
				return
			}
			defer e.Close()
			for _, f := range e.Resolve(nil, []uint64{0x1000, 0x10000, 0x401000, 0x480000, 1 << 62}) {
				if (f.Name == "") != (f.Reason != ReasonNone) {
					t.Fatalf("%s: %+v", what, f)
				}
			}
		}
		step := max(len(whole)/4096/60, 1) * 4096
		for n := 0; n < len(whole); n += step {
			ask(whole[:n], fmt.Sprintf("cut at %d", n))
		}
		b := slices.Clone(whole)
		for range 60 {
			// Headers and tables are at both ends, mostly.
			i := rng.IntN(4096)
			if rng.IntN(2) == 0 {
				i = len(b) - 1 - rng.IntN(len(b)/8)
			}
			bit := byte(1) << rng.IntN(8)
			b[i] ^= bit
			ask(b, fmt.Sprintf("bit %#x of byte %d flipped", bit, i))
			b[i] ^= bit
		}
	}
}

// covering returns the names of the innermost symbols whose bounds hold an
// address.
func covering(f *elf.File, syms []elf.Symbol, addr uint64) (names []string) {
	var best elf.Symbol
	for _, s := range syms {
		typ := elf.ST_TYPE(s.Info)
		if typ > elf.STT_FUNC && typ != elf.STT_GNU_IFUNC || s.Section == elf.SHN_UNDEF || s.Size == 0 || s.Name == "" ||
			addr < s.Value || addr-s.Value >= s.Size || s.Section >= elf.SHN_LORESERVE ||
			f.Sections[s.Section].Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		name, _, _ := strings.Cut(s.Name, "@")
		name = strings.TrimSuffix(name, ".abi0") // of Go's linker, not of its names
		switch {
		case names == nil || s.Value > best.Value || s.Value == best.Value && s.Size < best.Size:
			best, names = s, []string{name}
		case s.Value == best.Value && s.Size == best.Size:
			names = append(names, name)
		}
	}
	return names
}

// TestTruncatedWhileMapped cuts a file off at every stage of its reading: the
// process must live, and the answer be a reason.
func TestTruncatedWhileMapped(t *testing.T) {
	if runtime.GOOS == "windows" {
		testenv.Need(t, testenv.Missing("truncating mapped files", "Windows refuses it"))
	}
	image := buildELF(t, testFile{syms: testSyms})
	big := append(slices.Clone(image), make([]byte, 1<<16)...)
	for _, stage := range []string{"opened", "table", "named"} {
		t.Run(stage, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, big, 0o755); err != nil {
				t.Fatal(err)
			}
			e, err := OpenELF(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			switch stage {
			case "table":
				if _, err := e.table(false); err != nil {
					t.Fatal(err)
				}
			case "named":
				e.Resolve(nil, []uint64{at})
			}
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			for _, addr := range []uint64{at + 0x14, at + 0x100, testData + 8} {
				f := e.Resolve(nil, []uint64{addr})
				if len(f) != 1 || f[0].Reason != ReasonBadFile || f[0].Name != "" {
					t.Errorf("%#x: got %+v", addr, f)
				}
			}
			if _, err := e.Lookup("outer"); err == nil || errors.Is(err, ErrNoSymbol) {
				t.Errorf("Lookup says %v", err)
			}
		})
	}
}

// TestCutOff reads files that end early.
func TestCutOff(t *testing.T) {
	whole := buildELF(t, testFile{syms: testSyms, dyn: testSyms})
	for n := 0; n < len(whole); n += 61 {
		e, err := NewELF(bytes.NewReader(whole[:n]), int64(n), nil)
		if err != nil {
			continue
		}
		for _, f := range e.Resolve(nil, []uint64{at, at + 0x504, testData}) {
			if f.Name == "" && f.Reason == ReasonNone {
				t.Fatalf("cut at %d: no name and no reason", n)
			}
		}
		e.Close()
	}
}

func FuzzELF(f *testing.F) {
	f.Add(buildELF(f, testFile{syms: testSyms, dyn: testSyms, buildID: []byte("12345678")}))
	f.Add(buildELF(f, testFile{class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC, xindex: true, syms: testSyms}))
	plt, _ := filepath.Glob("testdata/plt/*.elf")
	for _, path := range append(plt, "testdata/dwarf/amd64.o", "testdata/dwarf/riscv64.o", "testdata/dwarf/s390-dwarf4.o") {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := NewELF(bytes.NewReader(b), int64(len(b)), &ELFOptions{Source: true, DebugDirs: []string{}})
		if err != nil {
			return
		}
		defer e.Close()
		for _, addr := range []uint64{0, at, at + 0x15, at + 0x504, testData + 8, 1<<64 - 1} {
			frames := e.Resolve(nil, []uint64{addr})
			if len(frames) == 0 {
				t.Fatal("an address without a frame")
			}
			for _, fr := range frames {
				if (fr.Name == "") == (fr.Reason == ReasonNone) {
					t.Fatalf("name %q and reason %v", fr.Name, fr.Reason)
				}
				if fr.Confidence == ConfidenceExact && fr.Size > 0 && fr.Offset >= fr.Size {
					t.Fatalf("%+v is outside of its bounds", fr)
				}
			}
		}
		if n := e.bytes(); n > 1<<20+64*int64(len(b)) {
			t.Fatalf("%d bytes hold %d", len(b), n)
		}
		list, err := e.Match(nil)
		if err == nil {
			for _, s := range list {
				if s.Name == "" {
					t.Fatal("a symbol without a name")
				}
			}
		}
	})
}

func TestLookup(t *testing.T) {
	e := openBytes(t, buildELF(t, testFile{syms: testSyms, dyn: testSyms[:5]}), &ELFOptions{Path: "f"})
	for _, c := range []struct {
		name string
		addr uint64
	}{
		{"outer", at},
		{"inner", at + 0x10},
		{"weak", at + 0x60},
		{"__alias", at + 0x60},
		{"ns::add", at + 0x500},
		{"ns::add(int, int)", at + 0x500},
		{"_ZN2ns3addEii", at + 0x500},
		{"demo::main", at + 0x520},
		{"memcpy", at + 0x540},
		{"variable", testData + 8},
	} {
		s, err := e.Lookup(c.name)
		if err != nil || s.Addr != c.addr {
			t.Errorf("%s: %#x %v, want %#x", c.name, s.Addr, err, c.addr)
		}
		off, ok := e.Offset(s.Addr)
		if ok != s.HasOffset || off != s.Offset {
			t.Errorf("%s: offset %#x %v, want %#x %v", c.name, s.Offset, s.HasOffset, off, ok)
		}
		if v, back := e.VAddr(off); ok && (!back || v != s.Addr) {
			t.Errorf("%s: offset %#x is at %#x", c.name, off, v)
		}
	}
	for _, name := range []string{"oute", "outer2", "add", "", "ns::add(int)", "\x00"} {
		if s, err := e.Lookup(name); !errors.Is(err, ErrNoSymbol) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: got %+v, %v", name, s, err)
		}
	}
	for _, c := range []struct{ pattern, want string }{
		{"inn*", "inner innermost"},
		{"*alias*", "__alias alias aliased"},
		{"/^over/", "overlap1 overlap2"},
		{"ns::*", "_ZN2ns3addEii"},
		{"?hort", "short"},
		{"[sl]*t", "last short"},
		{"nothing*", ""},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		list, err := e.Match(p)
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%s: got %q %v, want %q", c.pattern, got, err, c.want)
		}
		if q, err := ParsePattern(p.String()); err != nil || q.String() != p.String() {
			t.Errorf("%s prints as %s: %v", c.pattern, p, err)
		}
	}
	for _, bad := range []string{"[", "a\\", "/(/"} {
		if _, err := ParsePattern(bad); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// TestResolveAllocs holds the promise that a name that was given before costs
// no memory.
func TestResolveAllocs(t *testing.T) {
	e := openBytes(t, buildELF(t, testFile{syms: testSyms}), nil)
	var dst []Frame
	pcs := []uint64{at, at + 0x14, at + 0x504, at + 0x5f}
	dst = e.Resolve(dst[:0], pcs)
	if n := testing.AllocsPerRun(100, func() { dst = e.Resolve(dst[:0], pcs) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTableSize holds the promise of 16 bytes for each symbol.
func TestTableSize(t *testing.T) {
	var syms []testSym
	for i := range 1000 {
		syms = append(syms, testSym{fmt.Sprintf("f%d", i), at + uint64(4*i), 4, fn, global, false})
	}
	e := openBytes(t, buildELF(t, testFile{syms: syms}), nil)
	tab, err := e.table(false)
	if err != nil {
		t.Fatal(err)
	}
	if per := float64(tab.bytes()) / float64(len(tab.kind)); len(tab.kind) != 1000 || per > 16 {
		t.Errorf("%d symbols take %.1f bytes each", len(tab.kind), per)
	}
}
