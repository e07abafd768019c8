package stack

import (
	"debug/elf"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/pclntab"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack/internal/rules"
)

// goArchs are the architectures whose Go programs are walked by function table.
var goArchs = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// buildGo builds a small program, with DWARF.
func buildGo(t *testing.T, arch string) string {
	t.Helper()
	testenv.Need(t, testenv.Go)
	dir := t.TempDir()
	src := filepath.Join(dir, "main.go")
	if err := os.WriteFile(src, []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(len(fmt.Sprint(1))) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "prog")
	cmd := testenv.Command(t, "go", "build", "-o", out, src)
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOARCH="+arch)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	return out
}

// The rows made of a Go program's function table find the same callers as those
// that the linker writes to .debug_frame.
func TestGoTableMatchesDebugFrame(t *testing.T) {
	archs := maps.Clone(goArchs)
	archs["386"] = elf.EM_386
	for arch, machine := range archs {
		t.Run(arch, func(t *testing.T) {
			f, err := elffile.Open(buildGo(t, arch))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b := newCFIBuilder(machine, lowestAddress(f), 1<<30)
			if err := b.goTable(f); err != nil {
				t.Fatal(err)
			}
			got := b.table()
			b = newCFIBuilder(machine, lowestAddress(f), 1<<30)
			for _, s := range cfiSections(f) {
				data, err := s.read(f)
				if err != nil {
					t.Fatal(err)
				}
				b.section(data, s.addr, s.debug)
			}
			compareGoTable(t, f, got, b.table())
		})
	}
}

func compareGoTable(t *testing.T, f *elffile.File, got, want *CFITable) {
	if s := got.Stats(); s.Bad != 0 || s.Compact != s.Rows-s.Gaps {
		t.Errorf("%+v", s)
	}
	ra := uint8(rules.ReturnReg(got.rules.Machine))
	names, err := pclntab.New(f)
	if err != nil {
		t.Fatal(err)
	}
	compared, switches := 0, 0
	for pc := range want.rules.Rows.All() {
		addr := want.rules.Base + uint64(pc)
		g, w := got.rules.Lookup(addr), want.rules.Lookup(addr)
		fn, ok := names.Find(addr)
		if w.CFA.Kind == rules.CFANone || !ok {
			continue
		}
		if kind := goKindOf(fn.Name()); kind != goOrdinary {
			if g.CFA.Kind == rules.CFASwitch || g.CFA.Kind == rules.CFALost {
				switches++
			}
			continue
		}
		if string(fn.Name()) == "runtime.sigtramp" {
			continue // an end for the linker, on arm64; the kernel's frame for the handler comes next
		}
		compared++
		name := regName(got.rules.Machine)
		if g.CFA != w.CFA || text(g, ra, got.rules.Machine) != text(w, ra, got.rules.Machine) {
			t.Errorf("%s: %#x: CFA %s, return address %s; .debug_frame has %s, %s", fn.Name(), addr,
				cfaText(g.CFA, name), text(g, ra, got.rules.Machine), cfaText(w.CFA, name), text(w, ra, got.rules.Machine))
			if t.Failed() && compared > 100 {
				return
			}
		}
	}
	if compared < 1000 || switches == 0 {
		t.Errorf("%d rows compared, %d switch stacks", compared, switches)
	}
	t.Logf("%d rows the same", compared)
}

// A walk from what runtime.morestack calls on the thread's own stack goes on at
// the function whose stack is too small, and ends where the scheduler has taken
// the goroutine away.
func TestGoStackGrowth(t *testing.T) {
	for arch, machine := range goArchs {
		t.Run(arch, func(t *testing.T) {
			path := buildGo(t, arch)
			f, err := elffile.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			names, err := pclntab.New(f)
			if err != nil {
				t.Fatal(err)
			}
			entry := make(map[string]uint64)
			for i := range names.Len() {
				fn, _ := names.Func(i)
				entry[strings.TrimSuffix(string(fn.Name()), ".abi0")] = fn.Entry
			}
			grow := findGoGrow(f, names, goKinds(names))
			table, err := OpenCFI(path)
			if err != nil {
				t.Fatal(err)
			}
			if grow.from <= entry["runtime.morestack"] {
				t.Fatalf("%+v: not in runtime.morestack", grow)
			}
			mods := NewModules(Module{Start: 0x1000, End: 1 << 32, CFI: table})
			s := newGrown(machine, &grow, entry["main.main"], entry["runtime.goexit"])
			var dst [8]Frame
			var mem Memory = s.mem
			for _, c := range []struct {
				name string
				curg uint64
				pcs  []uint64
				end  StopReason
			}{
				{"running", grownG, []uint64{grow.from, entry["main.main"], entry["runtime.goexit"] + 1}, StopBottom},
				{"scheduler", 0, []uint64{grow.from}, StopBottom},
				{"damaged", 8, []uint64{grow.from}, StopBadMemory},
			} {
				s.put(grownM+uint64(grow.curg), c.curg)
				w := CFIWalker{Modules: mods}
				n, end := w.Walk(dst[:], &s.regs, mem)
				if got := pcs(dst[:n]); !slices.Equal(got, c.pcs) || end != c.end {
					t.Errorf("%s: %#x %v, want %#x %v", c.name, got, end, c.pcs, c.end)
				}
				if allocs := testing.AllocsPerRun(10, func() { w.Walk(dst[:], &s.regs, mem) }); allocs != 0 {
					t.Errorf("%s: %v allocations", c.name, allocs)
				}
			}
		})
	}
}

// Where the descriptors of TestGoStackGrowth are.
const (
	grownBase  = 0x1_0000_0000
	grownG0    = grownBase
	grownG     = grownBase + 0x400
	grownM     = grownBase + 0x800
	grownStack = grownBase + 0xc00
)

// grown is a thread that grows a goroutine's stack.
type grown struct {
	regs Regs
	mem  MemoryRange
}

func (s *grown) put(addr, v uint64) { binary.LittleEndian.PutUint64(s.mem.Data[addr-grownBase:], v) }

func newGrown(machine elf.Machine, grow *goGrow, pc, caller uint64) *grown {
	s := &grown{regs: Regs{Machine: machine}, mem: MemoryRange{grownBase, make([]byte, 0x1000)}}
	g := AMD64R14
	if machine == elf.EM_AARCH64 {
		g = 28
	}
	s.regs.Set(g, grownG0)
	s.regs.SetPC(grow.from)
	s.regs.SetSP(grownStack)
	s.put(grownG0+rules.GoMOfG, grownM)
	s.put(grownM+goG0OfM, grownG0)
	s.put(grownG+rules.GoSchedOfG, grownStack+0x100)
	s.put(grownG+rules.GoSchedOfG+8, pc)
	s.put(grownG+uint64(grow.bp)-8, caller+1) // g.sched.lr, arm64's return address
	s.put(grownStack+0x100, caller+1)         // amd64's
	return s
}

// TestGoSignalTrampoline crosses a Go program's signal frame in memory that has no
// code, as a kernel's core file: the walk ended at the trampoline, which was known
// by its instructions alone.
func TestGoSignalTrampoline(t *testing.T) {
	f, err := elffile.Open(buildGo(t, "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := newCFIBuilder(elf.EM_X86_64, lowestAddress(f), 1<<30)
	if err := b.goTable(f); err != nil {
		t.Fatal(err)
	}
	names, err := pclntab.New(f)
	if err != nil {
		t.Fatal(err)
	}
	entries := make(map[string]uint64)
	for i := range names.Len() {
		if fn, ok := names.Func(i); ok {
			entries[strings.TrimSuffix(string(fn.Name()), ".abi0")] = fn.Entry
		}
	}
	tramp, main, bottom := entries["runtime.sigreturn__sigaction"], entries["main.main"], entries["runtime.goexit"]+1
	if tramp == 0 || main == 0 || bottom == 1 {
		t.Fatalf("the program has %#x %#x %#x", tramp, main, bottom)
	}
	frame := make([]uint64, 40)
	frame[0] = tramp
	frame[1+rules.AMD64SigRegs/8+15] = 0x8000 // rsp
	frame[1+rules.AMD64SigRegs/8+16] = main
	w := CFIWalker{Modules: NewModules(Module{Start: 0x400000, End: 0x8000000, CFI: b.table()})}
	dst := make([]Frame, 10)
	n, end := w.Walk(dst, fpRegs(elf.EM_X86_64, entries["runtime.sigtramp"], 0x7000, 0), NewRanges(words(0x7000, frame...), words(0x8000, bottom)))
	if got := pcs(dst[:n]); !slices.Equal(got, []uint64{entries["runtime.sigtramp"], tramp, main, bottom}) || end != StopBottom {
		t.Errorf("got %#x %v", got, end)
	}
	if dst[1].Return {
		t.Error("the trampoline is named as the function before it")
	}
}
