package symbol

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
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
	p := &Process{ps: ps, pid: os.Getpid(), user: procfs.Anybody}
	img := &image{path: path, file: f, stat: st, owner: p.ownerOf(st)}
	p.load(img, &procfs.Mapping{Path: path})
	return img.elf
}

// reasonOf returns the reason for an address in a loaded file, and closes it. One that is not
// loaded is beyond the budget.
func reasonOf(e *ELF) Reason {
	if e == nil {
		return ReasonBudget
	}
	defer e.Close()
	return e.Resolve(nil, []uint64{elfbuild.ProgramText})[0].Reason
}

// What an address in a file of somebody's is named, or why it isn't: what naming it takes
// is elfbuild's TestBombs.
func TestBombReasons(t *testing.T) {
	testenv.Need(t, testenv.Long)
	testenv.LimitMemory(t, 512<<20)
	for name, want := range map[string]Reason{
		"compressed-symbols": ReasonBudget, "hole": ReasonBudget, "symbols": ReasonBudget,
		"aliases": ReasonNone, "aliases-of-all-sizes": ReasonNone, "nested": ReasonNone, "scattered": ReasonNone,
		"gnu-debugdata": ReasonNoSymbols, "line-rows": ReasonNone, "units-compressed": ReasonNone,
	} {
		b := elfbuild.BombNamed(name)
		ps := NewProcesses(&Options{Source: true})
		e := hostile(t, ps, b.Make(), b.Hole)
		if e == nil {
			t.Fatal("no ELF")
		}
		if b.Hole > 0 && e.f.Stored() == e.f.Size() {
			continue // on this file system it is no hole
		}
		if got := e.Resolve(nil, []uint64{elfbuild.ProgramText})[0].Reason; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		e.Close()
		ps.Close()
	}
}

// TestBombMatches: names that lie over each other, all in a string of 64 KiB, came to 8 GB
// when a million symbols were matched.
func TestBombMatches(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	for _, tt := range []struct {
		bomb    string
		pattern *Pattern
		want    error
	}{
		{"long-names", nil, elffile.ErrTooLarge},
		{"Go-long-names", nil, elffile.ErrTooLarge},
		{"named-symbols", nil, elffile.ErrTooLarge},
		{"fewer-named-symbols", nil, nil},
		{"symbols", Exact("aa"), nil},
	} {
		e := hostile(t, NewProcesses(nil), elfbuild.BombNamed(tt.bomb).Make(), 0)
		if list, err := e.Match(tt.pattern); !errors.Is(err, tt.want) || err != nil && list != nil {
			t.Errorf("%s: %d symbols, %v; want %v", tt.bomb, len(list), err, tt.want)
		}
		e.Close()
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
		return reasonOf(hostile(t, ps, built, 0))
	}
	if got := reason(); got != ReasonNone {
		t.Fatalf("the first file: %v", got)
	}
	for n := int64(tableWork); n > 0; n /= 2 { // all that is left
		for ps.work.Take(stranger.Owner{}, stranger.Party{}, n, stranger.Bytes(tableWork), now) {
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

// TestTableAllocates: symbols that enclose others, and symbols that are 4 GiB from each other, take
// memory only once more than the table has in the end. Their lists were allocated five times.
func TestTableAllocates(t *testing.T) {
	const n = 200_000
	for name, s := range map[string]elfbuild.SymbolTable{
		"enclosing": {N: n, Step: 1, Size: 2 * n, Shrink: 2, Names: 4}, "far": {N: n, Step: 1 << 33, Size: 64, Names: 4},
	} {
		image := elfbuild.Program(s.Sections()...).Bytes()
		e, err := NewELF(bytes.NewReader(image), int64(len(image)), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		allocated := meter.Allocated(func() { e.Resolve(nil, []uint64{elfbuild.ProgramText}) })
		t.Logf("%s: %d bytes for a file of %d", name, allocated, len(image))
		if most := uint64(5 * len(image)); allocated > most && !meter.Raced() {
			t.Errorf("%s: %d bytes, more than %d", name, allocated, most)
		}
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
