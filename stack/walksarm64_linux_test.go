package stack

import (
	"debug/elf"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

var armRoot = flag.String("record-arm64", "", "record stacks of arm64 programs below this `directory`, unpacked packages of Debian, to testdata/walks")

// armRecipes are programs that QEMU runs until a function of libc has been called
// so many times, and a few instructions on.
var armRecipes = []struct {
	name, stop  string
	count, step int
	argv        []string
}{
	{"arm64-bash-deep", "malloc", 900, 9, []string{"/bin/bash", "-c", "f() { if (( $1 > 0 )); then f $(( $1 - 1 )); else for ((i=0;i<300;i++)); do x=${x//a/bb}; x=${x:0:50}aa; done; fi; }; while :; do f 9; done"}},
	{"arm64-bash-write", "write", 20, 0, []string{"/bin/bash", "-c", "while :; do echo x; done"}},
	{"arm64-bash-free", "free", 1200, 3, []string{"/bin/bash", "-c", `while :; do for i in {1..300}; do y="${x//a/bb}$(( i * 3 % 7 ))"; done; done`}},
	{"arm64-perl-deep", "malloc", 3000, 5, []string{"/usr/bin/perl", "-e", stacktest.Workloads[2].Argv[2]}},
	{"arm64-perl-sort", "memcpy", 2500, 2, []string{"/usr/bin/perl", "-e", "while (1) { my @a = sort { $a cmp $b } map { $_ * 3 % 17 } 1..200 }"}},
	{"arm64-openssl-rsa", "malloc", 1500, 6, []string{"/usr/bin/openssl", "speed", "-seconds", "60", "rsa2048"}},
}

// TestRecordARM64Walks records stacks of arm64 programs, if asked to, on any
// machine with qemu-aarch64 and gdb-multiarch: with gdb's frames.
func TestRecordARM64Walks(t *testing.T) {
	if *armRoot == "" {
		return
	}
	testenv.Need(t, testenv.Tool("qemu-aarch64"), testenv.Tool("gdb-multiarch"))
	for i, r := range armRecipes {
		t.Run(r.name, func(t *testing.T) {
			port := 7400 + i
			cmd := testenv.Command(t, "qemu-aarch64", append([]string{"-g", fmt.Sprint(port), "-L", *armRoot, *armRoot + r.argv[0]}, r.argv[1:]...)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			g := &armGDB{memory: filepath.Join(t.TempDir(), "stack")}
			g.run(t, *armRoot+r.argv[0], port, r.stop, r.count, r.step)
			walk := g.record(t)
			walk.Recipe = fmt.Sprintf("qemu-aarch64 %q, at call %d of %s, %d instructions on", r.argv, r.count, r.stop, r.step)
			b, err := json.Marshal(walk)
			if err == nil {
				err = os.WriteFile("testdata/walks/"+r.name+".json", append(b, '\n'), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// armGDB is what gdb says of a stopped program.
type armGDB struct {
	memory string // file of the stack's memory, in pieces of a page
	regs   Regs
	frames []uint64
	mods   []Module
	files  []*elffile.File
	stack  []MemoryRange
}

const (
	armStackPages = 12
	armPage       = 4096
)

func (g *armGDB) run(t *testing.T, exe string, port int, stop string, count, step int) {
	t.Helper()
	args := []string{"-nx", "-batch"}
	for _, c := range []string{
		"set pagination off", "set sysroot " + *armRoot, "set backtrace past-main on", "set backtrace past-entry on",
		"set debuginfod enabled off", "file " + exe, fmt.Sprintf("target remote :%d", port), "set breakpoint pending on",
		"break " + stop, "continue", fmt.Sprintf("ignore 1 %d", count), "continue", fmt.Sprintf("stepi %d", step), "info files",
		"info sharedlibrary", "info registers sp pc x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15 x16 x17 x18 x19 x20 x21 x22 x23 x24 x25 x26 x27 x28 x29 x30",
		"bt -frame-info location-and-address",
	} {
		args = append(args, "-ex", c)
	}
	for i := range armStackPages { // the last may lie behind the stack's end
		args = append(args, "-ex", fmt.Sprintf("dump binary memory %s.%d $sp+%d $sp+%d", g.memory, i, i*armPage, (i+1)*armPage))
	}
	out, err := testenv.Command(t, "gdb-multiarch", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	g.parse(t, exe, string(out))
}

func (g *armGDB) parse(t *testing.T, exe, out string) {
	t.Helper()
	g.regs.Machine = elf.EM_AARCH64
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		var n int
		var from, to uint64
		switch {
		case strings.HasPrefix(line, "#"):
			if k, _ := fmt.Sscanf(line, "#%d 0x%x", &n, &from); k == 2 {
				g.frames = append(g.frames, from)
			}
		case len(f) > 3 && strings.HasPrefix(f[len(f)-1], *armRoot) && strings.HasPrefix(f[0], "0x"):
			if k, _ := fmt.Sscanf(line, "0x%x 0x%x", &from, &to); k == 2 { // info sharedlibrary
				g.add(t, f[len(f)-1], from, ".text")
			}
		case strings.Contains(line, "Entry point: 0x"):
			_, _ = fmt.Sscanf(strings.TrimSpace(line), "Entry point: 0x%x", &from)
			g.add(t, exe, from, "")
		case len(f) >= 2 && strings.HasPrefix(f[1], "0x"):
			num := map[string]int{"sp": ARM64SP, "pc": ARM64PC}[f[0]]
			if k, _ := fmt.Sscanf(f[0], "x%d", &n); k == 1 {
				num = n
			}
			_, _ = fmt.Sscanf(f[1], "0x%x", &from)
			g.regs.Set(num, from)
		}
	}
	for i := range armStackPages {
		if b, err := os.ReadFile(fmt.Sprintf("%s.%d", g.memory, i)); err == nil {
			g.stack = append(g.stack, MemoryRange{g.regs.SP() + uint64(i*armPage), b})
		}
	}
}

// add adds a file of which a section, or the program's entry, is at an address.
func (g *armGDB) add(t *testing.T, path string, at uint64, section string) {
	f, err := elffile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	vaddr := f.Entry
	if section != "" {
		vaddr = f.Section(section).Addr
	}
	c, err := cfiOf(f, cfiRoom(f))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.segs {
		start := at - vaddr + s.Vaddr
		g.mods = append(g.mods, Module{Start: start, End: start + s.Filesz, Bias: at - vaddr, CFI: c.table, Name: path})
		g.files = append(g.files, f)
	}
}

// ReadMemory implements Memory: the stack, and the files' code.
func (g *armGDB) ReadMemory(dst []byte, addr uint64) error {
	if NewRanges(g.stack...).ReadMemory(dst, addr) == nil {
		return nil
	}
	for i, m := range g.mods {
		if addr < m.Start || addr+uint64(len(dst)) > m.End {
			continue
		}
		off, ok := g.files[i].Offset(addr - m.Bias)
		if !ok {
			break
		}
		b, err := g.files[i].Bytes(off, uint64(len(dst)))
		copy(dst, b)
		return err
	}
	return ErrNoMemory
}

// record walks, and wants gdb's frames.
func (g *armGDB) record(t *testing.T) *recordedWalk {
	t.Helper()
	mods := NewModules(g.mods...)
	mem := &stacktest.Recorder{Memory: g, Bytes: make(map[uint64]byte)}
	dst := make([]Frame, 4096)
	w := CFIWalker{Modules: mods}
	n, end := w.Walk(dst, &g.regs, mem)
	if got := pcs(dst[:n]); !slices.Equal(got, g.frames) || n < 4 {
		t.Fatalf("%v: got %#x\ngdb %#x", end, got, g.frames)
	}
	t.Logf("%d frames, %v", n, end)
	out := &recordedWalk{Oracle: "gdb", Machine: g.regs.Machine, Regs: make(map[int]uint64), Memory: mem.Runs(), Frames: g.frames, End: end}
	for i := range numRegs {
		if v, ok := g.regs.Reg(i); ok {
			out.Regs[i] = v
		}
	}
	out.Modules = recordModules(mods, dst[:n])
	return out
}
