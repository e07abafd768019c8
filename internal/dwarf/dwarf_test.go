package dwarf

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/testenv"
)

// source is compiled in every way that a test needs; deep inlines make the
// chains interesting.
const source = `
static inline __attribute__((always_inline)) int inner(int x) {
	volatile int y = x * 3;
	if (y > 10)
		y += x;
	return y;
}
static inline __attribute__((always_inline)) int middle(int x) { return inner(x) +
	inner(x + 1); }
__attribute__((noinline)) int outer(int x) {
	int sum = 0;
	for (int i = 0; i < x; i++)
		sum += middle(i);
	return sum;
}
int main(int argc, char **argv) { return outer(argc); }
`

func tool(t *testing.T, names ...string) string {
	for _, n := range names {
		if p, err := exec.LookPath(n); err == nil {
			return p
		}
	}
	testenv.Need(t, testenv.Tool(strings.Join(names, " or ")))
	return ""
}

func compile(t *testing.T, args ...string) string {
	return compileSource(t, "prog.c", source, args...)
}

func compileSource(t *testing.T, name, source string, args ...string) string {
	testenv.Need(t, testenv.OS("linux"))
	cc := tool(t, "gcc", "cc")
	if strings.HasSuffix(name, ".cc") {
		cc = tool(t, "g++")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	pkg := args[len(args)-1] == "dwp"
	if pkg {
		args = args[:len(args)-1]
	}
	cmd := testenv.Command(t, cc, append(slices.Clone(args), "-O2", "-o", "prog", name)...)
	cmd.Dir = dir
	if msg, err := cmd.CombinedOutput(); err != nil {
		testenv.Need(t, testenv.Got(fmt.Sprintf("%s %v", cc, args), fmt.Errorf("%w: %s", err, msg),
			"cannot find ", "unrecognized", "unknown argument"))
	}
	if pkg {
		// The package is all that is left of what was split off.
		m, _ := filepath.Glob(filepath.Join(dir, "*.dwo"))
		// LLVM 14's own tool never ends for these files.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		cmd := testenv.CommandContext(ctx, t, tool(t, "dwp"), append(slices.Clone(m), "-o", "prog.dwp")...)
		cmd.Dir = dir
		if msg, err := cmd.CombinedOutput(); err != nil {
			testenv.Need(t, testenv.Got("dwp", fmt.Errorf("%w: %s", err, msg)))
		}
		for _, name := range m {
			os.Remove(name)
		}
	}
	return filepath.Join(dir, "prog")
}

// llvmCalls asks llvm-symbolizer for the chains of calls.
func llvmCalls(t *testing.T, path string, pcs []uint64) [][]Call {
	sym := tool(t, "llvm-symbolizer", "llvm-symbolizer-14", "llvm-symbolizer-15")
	var in bytes.Buffer
	for _, pc := range pcs {
		fmt.Fprintf(&in, "%#x\n", pc)
	}
	cmd := testenv.Command(t, sym, "-e", path, "--inlines", "--functions=linkage", "--no-demangle", "--output-style=LLVM")
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]Call
	for _, block := range strings.Split(strings.TrimSuffix(string(out), "\n\n"), "\n\n") {
		var calls []Call
		lines := strings.Split(block, "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			f := strings.Split(lines[i+1], ":")
			line, _ := strconv.Atoi(f[len(f)-2])
			col, _ := strconv.Atoi(f[len(f)-1])
			calls = append(calls, Call{Name: lines[i], File: strings.Join(f[:len(f)-2], ":"), Line: line, Column: col})
		}
		all = append(all, calls)
	}
	return all
}

// compare compares with llvm-symbolizer: depth, lines, columns, file names and
// the names of inlined functions. The outermost name is the symbol table's there.
func compare(t *testing.T, path string, pcs []uint64) {
	f, err := elffile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := New(f, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	open := func(name string) *elffile.File {
		f, err := elffile.Open(name)
		if err != nil {
			return nil
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	d.Split(open(path+".dwp"), func(dir, name string) *elffile.File { return open(filepath.Join(dir, name)) })
	want := llvmCalls(t, path, pcs)
	if len(want) != len(pcs) {
		t.Fatalf("llvm-symbolizer gave %d answers for %d addresses", len(want), len(pcs))
	}
	wrong, inlined := 0, 0
	for i, pc := range pcs {
		got := d.Calls(nil, pc)
		if len(got) == 0 && want[i][0].Line == 0 {
			continue
		}
		inlined += len(got) - 1
		same := slices.EqualFunc(got, want[i], func(a, b Call) bool {
			return a.Line == b.Line && a.Column == b.Column && (filepath.Base(a.File) == filepath.Base(b.File) || b.File == "??")
		})
		for k := 0; same && k < len(got)-1; k++ {
			same = got[k].Name == want[i][k].Name
		}
		if !same {
			if wrong++; wrong <= 3 {
				t.Errorf("%#x:\n got %+v\nwant %+v", pc, got, want[i])
			}
		}
	}
	t.Logf("%d of %d addresses differ, %d inlined calls", wrong, len(pcs), inlined)
}

func TestCompiled(t *testing.T) {
	for _, args := range [][]string{
		{"-g"},
		{"-gdwarf-2", "-gstrict-dwarf"},
		{"-gdwarf-3"},
		{"-gdwarf-4"},
		{"-gdwarf-5"},
		{"-gdwarf-5", "-gdwarf64"},
		{"-g", "-gz=zlib"},
		{"-g", "-ffunction-sections", "-Wl,--gc-sections"},
		{"-g", "-static"},
		{"-g", "-m32"},
		{"-gdwarf-4", "-gsplit-dwarf"},
		{"-gdwarf-5", "-gsplit-dwarf"},
		{"-gdwarf-4", "-gsplit-dwarf", "dwp"},
		{"-g", "-flto"},
		{"-g", "-fdebug-types-section"},
		{"-g", "-no-pie"},
	} {
		t.Run(strings.Join(args, "_"), func(t *testing.T) {
			path := compile(t, args...)
			compare(t, path, addresses(t, path, "main", "outer"))
		})
	}
}

// addresses returns every address of the functions whose names contain one of
// the words.
func addresses(t *testing.T, path string, words ...string) (pcs []uint64) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range syms {
		if slices.ContainsFunc(words, func(w string) bool { return elf.ST_TYPE(s.Info) == elf.STT_FUNC && strings.Contains(s.Name, w) }) {
			for pc := s.Value; pc < s.Value+s.Size; pc++ {
				pcs = append(pcs, pc)
			}
		}
	}
	return pcs
}

// TestLibc compares random addresses of libc's debug file, where it is.
func TestLibc(t *testing.T) {
	path := libcDebug(t)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	testenv.Need(t, testenv.Got("symbols", err, "no symbol section"))
	rng := rand.New(rand.NewPCG(5, 6))
	var pcs []uint64
	for len(pcs) < 2000 {
		if s := syms[rng.IntN(len(syms))]; elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
			pcs = append(pcs, s.Value+rng.Uint64N(s.Size))
		}
	}
	compare(t, path, pcs)
}

func libcDebug(tb testing.TB) string {
	m, _ := filepath.Glob("/lib/*-linux-gnu/libc.so.6")
	testenv.Need(tb, testenv.File(append(m, "libc.so.6")[0]))
	f, err := elffile.Open(m[0])
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	id := f.BuildID()
	if len(id) < 3 {
		tb.Fatal("libc has no build-id")
	}
	path := "/usr/lib/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug"
	testenv.Need(tb, testenv.File(path))
	return path
}

// FuzzDWARF changes bytes of the sections of a compiled program.
func FuzzDWARF(f *testing.F) {
	info, abbrev, line := tiny()
	f.Add(info, abbrev, line, uint64(0x1000))
	f.Fuzz(func(t *testing.T, info, abbrev, line []byte, pc uint64) {
		d := &Data{
			info: info, abbrev: abbrev, line: line, str: line, lineStr: info, rangesSec: line, rnglists: line,
			loc: line, loclists: line, addr: line, strOffsets: abbrev, abbrevTables: map[abbrevKey]*abbrevTable{},
			most: int64(pc % (1 << 16)), // 0: no bound
		}
		d.index()
		for i := range d.ranges {
			if i > 8 {
				break
			}
			pc = d.ranges[i].lo
			calls := d.Calls(nil, pc)
			for _, c := range calls[:max(len(calls)-1, 0)] {
				if c.Entry != 0 {
					t.Fatal("an inlined call has an entry")
				}
			}
		}
		d.Calls(nil, pc)
		var e, in Entry
		if d.FunctionAt(pc, &e) == nil {
			for i := e.Inside(); ; {
				if ok, err := i.Next(&in, TagFormalParameter, TagMember, TagArrayType); err != nil || !ok {
					break
				}
				in.Member()
				in.Dimensions()
				if p := in.PlaceAt(pc, &e); p.Pieces != nil && (p.Kind != 0 || len(p.Pieces) > maxPieces) {
					t.Fatalf("%+v", p)
				}
				owner := in.Owner(Name)
				owner.Text(Name)
			}
		}
		for off := uint64(0); off < uint64(min(len(info), 64)); off++ {
			if e.Read(Ref{d.unitOf(off), off}) == nil {
				e.Link(Type)
				e.behind()
			}
		}
		d.Rows(context.Background(), func(f SourceFile) (bool, error) { return f.Is(string(f.Base())) }, func(Row) error { return nil })
		if limit := int64(1<<20 + 400*(len(info)+len(abbrev)+len(line))); d.Bytes() > limit {
			t.Fatalf("%d bytes hold %d", len(info)+len(abbrev)+len(line), d.Bytes())
		}
	})
}

// tiny makes the sections of a unit with one function, one inlined call and
// two lines.
func tiny() (info, abbrev, line []byte) {
	abbrev = []byte{
		1, 0x11, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0, 0, // unit: name, low, high, lines
		2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, // function
		3, 0x1d, 0, 0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0x59, 0x0b, 0, 0, // inlined call
		0,
	}
	u64 := func(v uint64) []byte { return []byte{byte(v), byte(v >> 8), 0, 0, 0, 0, 0, 0} }
	body := []byte{4, 0, 0, 0, 0, 0, 8, 1, 'u', 0}
	body = append(append(append(body, u64(0x1000)...), u64(0x100)...), 0, 0, 0, 0)
	body = append(body, 2, 'f', 0)
	body = append(append(body, u64(0x1000)...), u64(0x80)...)
	body = append(body, 3, 34, 0, 0, 0)
	body = append(append(body, u64(0x1010)...), u64(0x10)...)
	body = append(body, 7, 0, 0)
	info = append([]byte{byte(len(body)), 0, 0, 0}, body...)
	prog := append(append([]byte{0, 9, 2}, u64(0x1000)...), 1, 3, 5, 2, 0x10, 1, 2, 0x70, 0, 1, 1)
	header := []byte{1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 'a', '.', 'c', 0, 0, 0, 0, 0}
	line = append([]byte{0, 0, 0, 0, 4, 0, byte(len(header)), 0, 0, 0}, header...)
	line = append(line, prog...)
	line[0] = byte(len(line) - 4)
	return info, abbrev, line
}

func TestTiny(t *testing.T) {
	info, abbrev, line := tiny()
	d := &Data{info: info, abbrev: abbrev, line: line, abbrevTables: map[abbrevKey]*abbrevTable{}}
	d.index()
	for _, c := range []struct {
		pc   uint64
		want string
	}{
		{0xfff, "[]"},
		{0x1000, "[{f a.c 1 0 4096 4224}]"},
		{0x1012, "[{f a.c 6 0 0 0} {f a.c 7 0 4096 4224}]"},
		{0x1020, "[{f a.c 6 0 4096 4224}]"},
		{0x1090, "[]"},
	} {
		got := d.Calls(nil, c.pc)
		for i := range got {
			got[i].File = "a.c" // the unit itself has no name
		}
		if s := fmt.Sprint(got); s != c.want {
			t.Errorf("%#x: got %s, want %s", c.pc, s, c.want)
		}
	}
}

// TestTight has little room for what is decoded, before and after lines are: what does not
// fit is not known.
func TestTight(t *testing.T) {
	info, abbrev, line := tiny()
	for _, lines := range []bool{false, true} {
		for most := int64(1); most < 2048; most++ {
			d := &Data{info: info, abbrev: abbrev, line: line, abbrevTables: map[abbrevKey]*abbrevTable{}}
			d.index()
			d.units[0].abbrevs()
			if lines {
				d.units[0].lineTableOf()
			}
			d.most = d.bytes + most
			for _, pc := range []uint64{0x1000, 0x1012, 0x1020} {
				if got := d.Calls(nil, pc); len(got) > 2 {
					t.Errorf("%d bytes more: %+v", most, got)
				}
			}
			// What is left over of the last element's table counts too.
			if d.Bytes() > d.most+512 {
				t.Errorf("%d bytes of %d", d.Bytes(), d.most)
			}
		}
	}
}

// TestLineHeaderCutOff asks for an inlined call in a file that the line table
// names before it breaks off.
func TestLineHeaderCutOff(t *testing.T) {
	info, abbrev, line := tiny()
	files := bytes.Index(line, []byte("a.c\x00"))
	line = line[:files+len("a.c")+4] // with the numbers behind the name, and no end
	line[0], line[6] = byte(len(line)-4), 1
	d := &Data{info: info, abbrev: abbrev, line: line, abbrevTables: map[abbrevKey]*abbrevTable{}}
	d.index()
	if calls := d.Calls(nil, 0x1012); len(calls) != 2 || calls[0].Line != 0 || calls[1].Line != 7 {
		t.Errorf("got %+v", calls)
	}
}

func BenchmarkLibcCold(b *testing.B) {
	path := libcDebug(b)
	ref, err := elf.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer ref.Close()
	syms, _ := ref.Symbols()
	rng := rand.New(rand.NewPCG(5, 6))
	var pcs []uint64
	for len(pcs) < 10000 {
		if s := syms[rng.IntN(len(syms))]; elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
			pcs = append(pcs, s.Value+rng.Uint64N(s.Size))
		}
	}
	for b.Loop() {
		f, err := elffile.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		d, err := New(f, nil, 0)
		if err != nil {
			b.Fatal(err)
		}
		var calls []Call
		for _, pc := range pcs {
			calls = d.Calls(calls[:0], pc)
		}
		b.ReportMetric(float64(d.Bytes()+f.Heap()), "bytes")
		f.Close()
	}
}
