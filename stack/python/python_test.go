package python

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// recordedPython is what reading the frames of a process reads, and what its
// interpreter said of them. TestPython makes it.
type recordedPython struct {
	Recipe            string
	Oracle            string
	Version           uint64
	Runtime, CodeType uint64
	Memory            []stacktest.Run
	Threads           map[string][]pythonFrame
}

type pythonFrame struct {
	Name, File string
	Line       int
}

// recordings returns the recorded processes by file.
func recordings(t testing.TB) map[string]*recordedPython {
	t.Helper()
	files, err := filepath.Glob("testdata/python/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%q, %v", files, err)
	}
	all := map[string]*recordedPython{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rec := new(recordedPython)
		if err := json.Unmarshal(b, rec); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = rec
	}
	return all
}

// memory returns a copy of what was recorded.
func (rec *recordedPython) memory(t testing.TB) (ranges []stack.MemoryRange) {
	t.Helper()
	for _, m := range rec.Memory {
		data, err := hex.DecodeString(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		ranges = append(ranges, stack.MemoryRange{Addr: m.Addr, Data: data})
	}
	return ranges
}

// interpreter returns the one in the memory.
func (rec *recordedPython) interpreter(mem stack.Memory) (p *Interpreter, err error) {
	p = &Interpreter{Version: rec.Version, mem: mem, runtime: rec.Runtime, codeType: rec.CodeType}
	p.layout, err = layoutOf(p.Version, p.mem, p.runtime)
	return p, err
}

// threads returns the numbers of the recorded threads.
func (rec *recordedPython) threads() (tids []int) {
	for id := range rec.Threads {
		tid, _ := strconv.Atoi(id)
		tids = append(tids, tid)
	}
	slices.Sort(tids)
	return tids
}

// TestRecordedPython reads the frames of recorded processes of each version.
func TestRecordedPython(t *testing.T) {
	for name, rec := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			ranges := rec.memory(t)
			p, err := rec.interpreter(stack.NewRanges(ranges...))
			if err != nil {
				t.Fatal(err)
			}
			comparePython(t, p, rec.Threads)
			damagePython(t, p, ranges, rec.Threads)
		})
	}
}

// TestHostileOffsets: a process that calls itself python3.13 chooses the offsets at which it is
// read. With 0xffff for those of a code object, reading its name was a panic.
func TestHostileOffsets(t *testing.T) {
	rec := recordings(t)["3.13.0.json"]
	if rec == nil {
		t.Fatal("no recording of 3.13")
	}
	ranges := rec.memory(t)
	i := slices.IndexFunc(ranges, func(r stack.MemoryRange) bool {
		return r.Addr <= rec.Runtime && rec.Runtime+debugOffSize <= r.Addr+uint64(len(r.Data))
	})
	if i < 0 {
		t.Fatal("the offsets are not recorded")
	}
	offsets := ranges[i].Data[rec.Runtime-ranges[i].Addr:][:debugOffSize]
	refused := 0
	for at := debugOffInterps; at+8 <= len(offsets); at += 8 {
		word := offsets[at:][:8]
		was := [8]byte(word)
		for _, v := range []uint64{0xffff, 1 << 40, ^uint64(0), ^uint64(7), codeSize - 7, codeSize - 8, 0} {
			binary.LittleEndian.PutUint64(word, v)
			p, err := rec.interpreter(stack.NewRanges(ranges...))
			if err != nil {
				refused++
				continue
			}
			readAll(p, rec.threads())
		}
		copy(word, was[:])
	}
	if refused < 60 { // 21 offsets, most of which refuse the first four values
		t.Errorf("only %d refused", refused)
	}
}

// readAll reads the frames of threads and the code objects in them.
func readAll(p *Interpreter, tids []int) {
	for _, tid := range tids {
		frames, _ := p.Frames(nil, tid)
		for _, f := range frames {
			_, _ = p.Code(f.PC)
		}
	}
}

// TestRing: a list of frames that leads back into itself is an error as soon as that shows. It
// was followed for 65,536 frames.
func TestRing(t *testing.T) {
	for name, rec := range recordings(t) {
		counted := &countingMemory{Memory: stack.NewRanges(rec.memory(t)...)}
		p, err := rec.interpreter(counted)
		if err != nil {
			t.Fatal(err)
		}
		for _, tid := range rec.threads() {
			counted.frames = nil
			frames, err := p.Frames(nil, tid)
			if err != nil || len(frames) < 2 {
				continue
			}
			// Each frame's previous one is the innermost.
			counted.reads, counted.ring, counted.to = 0, p.layout.framePrevious, counted.frames[0]
			if got, err := p.Frames(nil, tid); err == nil || !strings.Contains(err.Error(), "ring") || counted.reads > 100 {
				t.Errorf("%s: %d frames, %d reads, %v", name, len(got), counted.reads, err)
			}
			counted.ring = 0
			break
		}
	}
}

// countingMemory counts reads, remembers the frames that are read and, with ring set to the
// offset of a frame's previous one, has all frames lead to one.
type countingMemory struct {
	stack.Memory
	reads    int
	frames   []uint64
	ring, to uint64
}

func (m *countingMemory) ReadMemory(b []byte, addr uint64) error {
	m.reads++
	err := m.Memory.ReadMemory(b, addr)
	if len(b) != rules.PythonFrameSize {
		return err
	}
	m.frames = append(m.frames, addr)
	if m.ring != 0 {
		binary.LittleEndian.PutUint64(b[m.ring:], m.to)
	}
	return err
}

// FuzzInterpreter changes words of an interpreter's memory: reading it ends, and asks for
// little more than what is there.
func FuzzInterpreter(f *testing.F) {
	recs := recordings(f)
	for name := range recs {
		f.Add(name, uint16(0), uint64(0), uint16(100), ^uint64(0))
		f.Add(name, uint16(35), uint64(0xffff), uint16(36), uint64(0xffff))
	}
	f.Fuzz(func(t *testing.T, name string, at1 uint16, v1 uint64, at2 uint16, v2 uint64) {
		rec := recs[name]
		if rec == nil {
			return
		}
		ranges := rec.memory(t)
		var words [][]byte
		for _, r := range ranges {
			for b := r.Data; len(b) >= 8; b = b[8:] {
				words = append(words, b[:8])
			}
		}
		binary.LittleEndian.PutUint64(words[int(at1)%len(words)], v1)
		binary.LittleEndian.PutUint64(words[int(at2)%len(words)], v2)
		counted := &countingMemory{Memory: stack.NewRanges(ranges...)}
		p, err := rec.interpreter(counted)
		if err != nil {
			return
		}
		readAll(p, rec.threads())
		if most := 1000 * len(words); counted.reads > most {
			t.Errorf("%d reads of %d words", counted.reads, len(words))
		}
	})
}

// comparePython wants the frames of all threads to be those.
func comparePython(t *testing.T, p *Interpreter, want map[string][]pythonFrame) {
	t.Helper()
	for id, frames := range want {
		tid, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Frames(nil, tid)
		if err != nil {
			t.Errorf("thread %d: %v", tid, err)
		}
		var named []pythonFrame
		for _, f := range got {
			c, err := p.Code(f.PC)
			if err != nil {
				t.Fatalf("thread %d: %v", tid, err)
			}
			named = append(named, pythonFrame{c.Name, c.File, int(f.Line)})
		}
		if !slices.Equal(named, frames) {
			t.Errorf("thread %d:\n got %s\nwant %s", tid, brief(named), brief(frames))
		}
		if n := len(got); n > 0 && !got[n-1].Entry {
			t.Errorf("thread %d: its first frame is no entry", tid)
		}
	}
	if got, err := p.Frames(nil, 1<<30); err != nil || len(got) != 0 {
		t.Errorf("a thread that is not there: %d frames, %v", len(got), err)
	}
}

func brief(frames []pythonFrame) string {
	var out []string
	for _, f := range frames[:min(len(frames), 20)] {
		out = append(out, fmt.Sprintf("%s:%d", f.Name, f.Line))
	}
	return strings.Join(out, " ")
}

// damagePython makes every word of the memory that is read something else:
// reading ends, whatever it finds.
func damagePython(t *testing.T, p *Interpreter, ranges []stack.MemoryRange, threads map[string][]pythonFrame) {
	t.Helper()
	ids := make([]int, 0, len(threads))
	for id := range threads {
		tid, _ := strconv.Atoi(id)
		ids = append(ids, tid)
	}
	for _, r := range ranges {
		for at := 0; at+8 <= len(r.Data); at += 8 {
			word := r.Data[at:][:8]
			was := [8]byte(word)
			for _, v := range []uint64{0, ^uint64(0), r.Addr + uint64(at)} {
				binary.LittleEndian.PutUint64(word, v)
				for _, tid := range ids[:1] {
					if got, err := p.Frames(nil, tid); err == nil && len(got) > 1000 {
						t.Fatalf("%#x at %#x: %d frames", v, r.Addr+uint64(at), len(got))
					}
				}
			}
			copy(word, was[:])
		}
	}
}

// The example of CPython's Objects/locations.md and Lib/test/test_code.py's
// kinds: short, one line, no columns, long, none.
func TestPythonLine(t *testing.T) {
	table := []byte{
		0x80 | 11<<3 | 1, 0x01, 0x02, // units 0 and 1: the next line
		0x80 | 3<<3, 0x12, // unit 2: the same line
		0x80 | 13<<3 | 2, 0x07, // units 3 to 5: three lines back
		0x80 | 14<<3, 0x40 | 0x20, 0x03, 0x01, 0x02, 0x03, // unit 6: (3<<6|32)/2 lines on
		0x80 | 15<<3 | 7, // units 7 to 14: none
		0x80 | 10<<3, 0x01, 0x02,
	}
	for _, c := range []struct {
		unit uint64
		line int
		ok   bool
	}{{0, 11, true}, {1, 11, true}, {2, 11, true}, {3, 8, true}, {5, 8, true}, {6, 120, true}, {7, 120, false}, {14, 120, false}, {15, 120, true}, {16, 0, false}} {
		if line, ok := lineAt(table, 10, c.unit); ok != c.ok || line != c.line {
			t.Errorf("unit %d: line %d, %v; want %d, %v", c.unit, line, ok, c.line, c.ok)
		}
	}
	for _, bad := range [][]byte{nil, {0}, {0x7f}, {0x80 | 13<<3}, {0x80 | 14<<3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		lineAt(bad, 1, 1<<40)
	}
}

func TestPythonText(t *testing.T) {
	for want, b := range map[string][]byte{"abc": []byte("abc"), "größe": {'g', 'r', 0xf6, 0xdf, 'e'}} {
		if got := decodeText(b, 1, want == "abc"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := decodeText([]byte{0xac, 0x20, 'x', 0}, 2, false); got != "€x" {
		t.Errorf("%q", got)
	}
	if got := decodeText([]byte{0x0d, 0xf4, 1, 0}, 4, false); got != "🐍" {
		t.Errorf("%q", got)
	}
}

// Runs of interpreted frames go inside the loops that ran them.
func TestMerge(t *testing.T) {
	for _, c := range []struct {
		frames, want string // n native, L a loop, p interpreted, E an entry
		whole        bool
	}{
		{"nLnLn pEppE", "n|pE|L|n|ppE|L|n", true},
		{"nLnLn pEppE", "n|pE|L|n|ppE|L|n", false},
		{"LnLn pE", "L|n|pE|L|n", true},        // the leaf has not begun
		{"LnLn pE", "pE|L|n|L|n", false},       // the walk ended early
		{"nLn EpEE", "n|E|pE|E|L|n", true},     // loops that have no name
		{"nLnL EpEE", "n|E|pE|L|n|E|L", true},  // the leaf's
		{"nLnL EpEE", "n|E|L|n|pE|E|L", false}, // the outermost
		{"nn pE", "n|n|pE", true},              // no loop is known
		{"nLn", "n|L|n", true},                 // no frame
		{"nLn pp", "n|pp|L|n", true},           // no entry: the limit of frames
		{"", "", true},
	} {
		var frames []stack.Frame
		for i, r := range strings.ReplaceAll(c.frames, " ", "") {
			f := stack.Frame{PC: uint64(r) | uint64(i)<<8, Source: stack.SourceCFI}
			if r == 'p' || r == 'E' {
				f.Source, f.Entry = stack.SourceInterpreter, r == 'E'
			}
			frames = append(frames, f)
		}
		var got strings.Builder
		for _, f := range Merge(nil, frames, c.whole, func(f stack.Frame) bool { return f.PC&0xff == 'L' }) {
			got.WriteByte(byte(f.PC))
		}
		if want := strings.ReplaceAll(c.want, "|", ""); got.String() != want {
			t.Errorf("%s, whole %v: got %s want %s", c.frames, c.whole, got.String(), want)
		}
	}
}

// TestPythonBias: an interpreter whose segments share pages of its file, as
// gold lays them out, was looked for where the first byte of the mapping is loaded,
// which is another segment's.
func TestPythonBias(t *testing.T) {
	const slide, runtime = 0x555555000000, 0x9780
	section := func(name string, flags elf.SectionFlag, addr uint64, size int) elfbuild.Section {
		return elfbuild.Section{Name: name, Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | flags, Addr: addr, Data: make([]byte, size)}
	}
	data := section(".data", elf.SHF_WRITE, 0x9700, 0x800)
	binary.LittleEndian.PutUint64(data.Data, 0x030b00f0)
	image := elfbuild.File{
		Machine: elf.EM_X86_64,
		Sections: []elfbuild.Section{
			section(".text", elf.SHF_EXECINSTR, 0x1400, 0x2300), section(".text.hot", elf.SHF_EXECINSTR, 0x5700, 0x3000), data,
		},
		DynSymbols: []elfbuild.Symbol{
			{Name: "_PyRuntime", Value: runtime, Size: 8, Type: elf.STT_OBJECT, Bind: elf.STB_GLOBAL, Section: 3},
			{Name: "Py_Version", Value: data.Addr, Size: 8, Type: elf.STT_OBJECT, Bind: elf.STB_GLOBAL, Section: 3},
		},
	}
	f, err := elffile.NewBytes(image.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, m := range []fileMapping{
		{slide + 0x1000, slide + 0x4000, 0, true},
		{slide + 0x5000, slide + 0x9000, 0x2000, true},
		{slide + 0x9000, slide + 0xa000, 0x5000, false},
	} {
		var p Interpreter
		if err := p.find(f, &m); err != nil || p.runtime != slide+runtime {
			t.Errorf("%#x: %#x, %v, want %#x", m.start, p.runtime, err, uint64(slide+runtime))
		}
	}
}

// TestPython32: an interpreter of 32 bits, whose structures are others, is not read as one of 64.
func TestPython32(t *testing.T) {
	image := elfbuild.File{
		Class: elf.ELFCLASS32, Machine: elf.EM_386,
		Sections: []elfbuild.Section{
			{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x1000, Data: make([]byte, 0x1000)},
			{Name: ".data", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE, Addr: 0x3000, Data: []byte{0xf0, 0, 0x0b, 3, 0, 0, 0, 0}},
		},
		DynSymbols: []elfbuild.Symbol{
			{Name: "_PyRuntime", Value: 0x3000, Size: 8, Type: elf.STT_OBJECT, Bind: elf.STB_GLOBAL, Section: 2},
			{Name: "Py_Version", Value: 0x3000, Size: 4, Type: elf.STT_OBJECT, Bind: elf.STB_GLOBAL, Section: 2},
		},
	}
	f, err := elffile.NewBytes(image.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var p Interpreter
	if err := p.find(f, &fileMapping{0x1000, 0x2000, 0x1000, true}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
