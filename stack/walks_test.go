package stack

import (
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/stack/internal/rules"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// recordedWalk is a stack of a stopped program: the registers, the memory that
// its walk reads, the rules for the code that it comes through, and the frames
// that gdb found. TestRecordWalks (walks_linux_test.go) makes them.
type recordedWalk struct {
	Recipe  string // how the program was made and run
	Oracle  string // whose frames they are
	Machine elf.Machine
	Regs    map[int]uint64
	Memory  []stacktest.Run
	Modules []recordedModule
	Frames  []uint64
	End     StopReason
}

// recordedModule has the rules for single addresses of the file.
type recordedModule struct {
	Name             string
	Start, End, Bias uint64
	Exprs            []string `json:",omitempty"`
	Rules            []recordedRule
}

// recordedRule is a CfiRule as numbers: how, the CFA's kind, register and two
// offsets; of each saved register its number, kind, register and offset.
type recordedRule struct {
	Addr  uint64
	CFA   [5]int32
	Saved [][4]int32 `json:",omitempty"`
}

func (r recordedRule) rule(machine elf.Machine) rules.Rule {
	s := cfiState{how: FrameSource(r.CFA[0]), cfa: rules.CFA{Kind: rules.CFAKind(r.CFA[1]), Reg: uint8(r.CFA[2]), Off: r.CFA[3], Off2: r.CFA[4]}}
	for _, v := range r.Saved {
		s.setReg(uint64(v[0]), rules.RegRule{Kind: rules.RegKind(v[1]), Reg: uint8(v[2]), Off: v[3]})
	}
	return s.rule(int32(wordSize(machine)))
}

// table is a table that knows the module's rules only.
func (m *recordedModule) table(t testing.TB, machine elf.Machine) *CFITable {
	if len(m.Rules) == 0 {
		return nil
	}
	slices.SortFunc(m.Rules, func(a, b recordedRule) int { return int(int64(a.Addr) - int64(b.Addr)) })
	tab := &CFITable{rules: rules.Table{Machine: machine, Base: m.Rules[0].Addr, Rules: make([]rules.Rule, 1)}, how: SourceCFI}
	tab.rules.Rows = rules.PackRows(func(yield func(uint32, uint16) bool) {
		for i, r := range m.Rules {
			pc := uint32(r.Addr - tab.rules.Base)
			if !yield(pc, uint16(i+1)) || i+1 < len(m.Rules) && m.Rules[i+1].Addr == r.Addr+1 {
				continue
			}
			yield(pc+1, 0)
		}
	})
	for _, r := range m.Rules {
		tab.rules.Rules = append(tab.rules.Rules, r.rule(machine))
	}
	for _, e := range m.Exprs {
		b, err := hex.DecodeString(e)
		if err != nil {
			t.Fatal(err)
		}
		tab.exprs = append(tab.exprs, b)
	}
	return tab
}

// snapshot is what a walk needs.
func (w *recordedWalk) snapshot(t testing.TB) (*Regs, []MemoryRange, *Modules) {
	regs := &Regs{Machine: w.Machine}
	for n, v := range w.Regs {
		regs.Set(n, v)
	}
	var mem []MemoryRange
	for _, m := range w.Memory {
		b, err := hex.DecodeString(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		mem = append(mem, MemoryRange{m.Addr, b})
	}
	var mods []Module
	for i := range w.Modules {
		m := &w.Modules[i]
		mods = append(mods, Module{Start: m.Start, End: m.End, Bias: m.Bias, Name: m.Name, CFI: m.table(t, w.Machine)})
	}
	return regs, mem, NewModules(mods...)
}

// recordedWalks reads all of them.
func recordedWalks(t testing.TB) map[string]*recordedWalk {
	files, err := filepath.Glob("testdata/walks/*.json")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*recordedWalk)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		w := new(recordedWalk)
		if err := json.Unmarshal(b, w); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".json")] = w
	}
	return all
}

// Recorded stacks have the frames that gdb found when they were recorded.
func TestRecordedWalks(t *testing.T) {
	all := recordedWalks(t)
	if len(all) < 40 {
		t.Errorf("%d recorded stacks", len(all))
	}
	var dst [4096]Frame
	for name, w := range all {
		t.Run(name, func(t *testing.T) {
			regs, ranges, mods := w.snapshot(t)
			var mem Memory = NewRanges(ranges...)
			walker := CFIWalker{Modules: mods}
			n, end := walker.Walk(dst[:], regs, mem)
			if got := pcs(dst[:n]); !slices.Equal(got, w.Frames) || end != w.End {
				t.Errorf("%s\n got %#x %v\nwant %#x %v", w.Recipe, got, end, w.Frames, w.End)
			}
			if allocs := testing.AllocsPerRun(2, func() { walker.Walk(dst[:], regs, mem) }); allocs != 0 {
				t.Errorf("%v allocations", allocs)
			}
		})
	}
}

// Whatever a damaged stack holds, the walk ends with a reason: each of its words
// is made zero, all ones, the stack pointer, and the program counter.
func TestDamagedWalks(t *testing.T) {
	var dst [512]Frame
	for name, w := range recordedWalks(t) {
		regs, ranges, mods := w.snapshot(t)
		var mem Memory = NewRanges(ranges...)
		walker := CFIWalker{Modules: mods}
		for _, r := range ranges {
			for at := 0; at+8 <= len(r.Data); at += 8 {
				word := r.Data[at:][:8]
				was := [8]byte(word)
				for _, v := range []uint64{0, ^uint64(0), regs.SP(), regs.PC(), r.Addr + uint64(at)} {
					copy(word, words(0, v).Data)
					if n, end := walker.Walk(dst[:], regs, mem); n == 0 || end == StopUnknown {
						t.Fatalf("%s: %#x at %#x: %d frames, no reason", name, v, r.Addr+uint64(at), n)
					}
				}
				copy(word, was[:])
			}
		}
	}
}
