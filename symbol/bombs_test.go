package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ulikunitz/xz"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/stranger"
	"github.com/borescope/borescope/internal/testenv"
)

// hostile returns the ELF that a process's mapping of an image gets, with a hole at
// its end; nil if it gets none.
func hostile(t *testing.T, ps *Processes, built []byte, hole int64) *ELF {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	writeHostile(t, path, built, hole)
	return loaded(t, ps, path)
}

// writeHostile makes a file of an image, with a hole at its end.
func writeHostile(t *testing.T, path string, built []byte, hole int64) {
	t.Helper()
	if err := os.WriteFile(path, built, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(built))+hole); err != nil {
		t.Fatal(err)
	}
}

// loaded returns the ELF that a process's mapping of a file gets, nil if it gets none.
func loaded(t *testing.T, ps *Processes, path string) *ELF {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	img := &image{path: path, file: f, stat: st, owner: ps.owner(os.Getpid(), st)}
	ps.load(img, os.Getpid(), &procfs.Mapping{Path: path})
	return img.elf
}

// Files that anybody may run took root's tools gigabytes and minutes to name an
// address in: what a process's file may take is bounded before it is read.
func TestBombs(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	build := func(s ...elfbuild.Section) []byte { return elfbuild.Program(s...).Bytes() }
	table := func(s elfbuild.SymbolTable) []byte { return build(s.Sections()...) }
	compressed := elfbuild.SymbolTable{N: 1, Size: 16, Names: 4}.Compressed(96 << 20)
	var mini bytes.Buffer
	w, err := xz.NewWriter(&mini)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 48<<20)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	const n = 1 << 20
	for _, tt := range []struct {
		name  string
		image []byte
		hole  int64
		want  Reason
	}{
		{"compressed symbols", build(compressed...), 0, ReasonBudget},
		{"hole", elfbuild.Sparse(table(elfbuild.SymbolTable{N: 8, Names: 4}), 2, 4<<30), 4 << 30, ReasonBudget},
		{"many", table(elfbuild.SymbolTable{N: 5 * n / 2, Step: 16, Size: 16, Names: 8}), 0, ReasonBudget},
		{"aliases", table(elfbuild.SymbolTable{N: n, Size: 16, Names: 30000}), 0, ReasonNone},
		{"aliases of all sizes", table(elfbuild.SymbolTable{N: n, Size: n, Shrink: 1, Names: 30000}), 0, ReasonNone},
		{"nested", table(elfbuild.SymbolTable{N: n / 2, Step: 1, Size: n, Shrink: 2, Names: 4}), 0, ReasonNone},
		{"scattered", table(elfbuild.SymbolTable{N: n, Step: 1 << 33, Size: 16, Names: 4}), 0, ReasonNone},
		{".gnu_debugdata", build(elfbuild.Section{Name: ".gnu_debugdata", Type: elf.SHT_PROGBITS, Data: mini.Bytes()}), 0, ReasonNoSymbols},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ps := NewProcesses(nil)
			defer ps.Close()
			e := hostile(t, ps, tt.image, tt.hole)
			if e == nil {
				t.Fatal("no ELF")
			}
			defer e.Close()
			if tt.hole > 0 && e.f.Stored() == e.f.Size() {
				return // on this file system it is no hole
			}
			var frames []Frame
			mem, cpu := meter.Bounded(t, len(tt.image), func() {
				frames = e.Resolve(frames, []uint64{elfbuild.ProgramText, elfbuild.ProgramText + 100})
				for pc := uint64(0); pc < 1000; pc++ {
					frames = e.Resolve(frames[:2], []uint64{elfbuild.ProgramText + n/2 + pc})
				}
			})
			if frames[0].Reason != tt.want {
				t.Errorf("reason %v, want %v", frames[0].Reason, tt.want)
			}
			t.Logf("%d bytes of file: %d of memory, %v: %v", len(tt.image), mem, cpu.Round(time.Millisecond), frames[0].Reason)
		})
	}
}

// A process's file whose DWARF asks for much, also compressed, has lines and calls as far
// as the budget goes.
func TestDWARFBombs(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	const n = 8 << 20
	for name, d := range map[string]elfbuild.DWARF{
		"line rows": elfbuild.LineRows(n), "inlined calls": elfbuild.InlinedCalls(n), "units": elfbuild.Units(n/32, nil),
	} {
		for _, compressed := range []bool{false, true} {
			sections := d.Sections()
			for i := range sections {
				if s := &sections[i]; compressed && len(s.Data) > 1<<20 {
					s.Flags, s.Data = elf.SHF_COMPRESSED, elfbuild.Compressed(s.Data, 0)
				}
			}
			image := elfbuild.Program(sections...).Bytes()
			ps := NewProcesses(&Options{Source: true})
			e := hostile(t, ps, image, 0)
			if e == nil {
				t.Fatal("no ELF")
			}
			var frames []Frame
			mem, cpu := meter.Bounded(t, len(image), func() {
				for pc := uint64(0); pc < 1000; pc++ {
					frames = e.Resolve(frames[:0], []uint64{elfbuild.ProgramText + pc})
				}
			})
			t.Logf("%s, compressed %v: %d bytes of file: %d of memory, %v", name, compressed, len(image), mem, cpu.Round(time.Millisecond))
			e.Close()
			ps.Close()
		}
	}
}

// A debug file is as anybody's as the file that names it: of 4 KB and a hole each GiB
// took 3 s, of 9 MB one took 870 MB.
func TestDebugFileBombs(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	symbols := elfbuild.SymbolTable{N: 1, Size: 16, Names: 4}.Compressed(96 << 20)
	incompressible := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(incompressible)
	symbols = append(symbols, elfbuild.Section{Name: ".filler", Type: elf.SHT_PROGBITS, Data: incompressible})
	for _, tt := range []struct {
		name  string
		debug []byte
		hole  int64
	}{
		{"hole", elfbuild.Program(elfbuild.SymbolTable{N: 8, Names: 4}.Sections()...).Bytes(), 4 << 30},
		{"compressed symbols", elfbuild.Program(symbols...).Bytes(), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			// The sum of one with a hole is another.
			link := binary.LittleEndian.AppendUint32([]byte("x.debug\x00"), crc32.ChecksumIEEE(tt.debug))
			program := elfbuild.Program(elfbuild.Section{Name: ".gnu_debuglink", Type: elf.SHT_PROGBITS, Data: link, Align: 4}).Bytes()
			writeHostile(t, filepath.Join(dir, "x"), program, 0)
			writeHostile(t, filepath.Join(dir, "x.debug"), tt.debug, tt.hole)
			ps := NewProcesses(nil)
			defer ps.Close()
			e := loaded(t, ps, filepath.Join(dir, "x"))
			if e == nil {
				t.Fatal("no ELF")
			}
			defer e.Close()
			var frames []Frame
			mem, cpu := meter.Spent(func() { frames = e.Resolve(nil, []uint64{elfbuild.ProgramText}) })
			if mem > 64<<20 && !meter.Raced() {
				t.Errorf("%d bytes of memory", mem)
			}
			if cpu > time.Second && !meter.Raced() {
				t.Errorf("%v of a CPU", cpu)
			}
			t.Logf("%d of memory, %v: %v", mem, cpu.Round(time.Millisecond), frames[0].Reason)
		})
	}
}

// However many files there are, together they get a bounded share of the work.
func TestSymbolWorkIsBounded(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	now := time.Unix(1, 0)
	ps := NewProcesses(nil)
	defer ps.Close()
	ps.now = func() time.Time { return now }
	built := elfbuild.Program(elfbuild.SymbolTable{N: 1000, Step: 16, Size: 16, Names: 4}.Sections()...).Bytes()
	reason := func() Reason {
		e := hostile(t, ps, built, 0)
		defer e.Close()
		return e.Resolve(nil, []uint64{elfbuild.ProgramText})[0].Reason
	}
	if got := reason(); got != ReasonNone {
		t.Fatalf("the first file: %v", got)
	}
	for n := int64(tableWork); n > 0; n /= 2 { // all that is left
		for ps.work.Take(stranger.Owner{}, n, tableWork, now) {
		}
	}
	if got := reason(); got != ReasonBudget {
		t.Errorf("with the work used up: %v, want %v", got, ReasonBudget)
	}
	now = now.Add(time.Second)
	if got := reason(); got != ReasonNone {
		t.Errorf("a second later: %v, want none", got)
	}
}

// TestGoTableBombs: an address took as long as the tables of its function are, 18 ms in
// a file of 17 MB.
func TestGoTableBombs(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	for _, g := range []elfbuild.GoTable{
		{Functions: 1, Steps: 4 << 20}, {Functions: 1000, Steps: 4 << 20}, {Functions: 100_000, Steps: 20_000},
	} {
		image := elfbuild.Program(g.Section()).Bytes()
		ps := NewProcesses(nil)
		e := hostile(t, ps, image, 0)
		if e == nil {
			t.Fatal("no ELF")
		}
		var frames []Frame
		mem, cpu := meter.Bounded(t, len(image), func() {
			for i := range uint64(1000) { // three in each function: the second one has it decoded
				fn := uint64(g.Functions-1) * (i / 3) / 333
				pc := elfbuild.ProgramText + fn*uint64(g.Steps) + uint64(g.Steps)/2 + i
				frames = e.Resolve(frames[:0], []uint64{pc})
			}
		})
		if frames[0].Name != "f" || frames[0].Kind != KindGo {
			t.Errorf("%+v, want the function f", frames[0])
		}
		t.Logf("%+v: %d bytes of file: %d of memory, %v, line %d", g, len(image), mem, cpu.Round(time.Millisecond), frames[0].Line)
		e.Close()
		ps.Close()
	}
}
