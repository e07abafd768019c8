package pclntab

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/testenv"
)

// build builds the program of testdata with a version of Go, "" being this one.
func build(t *testing.T, version string, cgo bool, args ...string) string {
	testenv.Need(t, testenv.OS("linux"), testenv.Tool("go"), testenv.Long)
	dir := t.TempDir()
	src, err := os.ReadFile("testdata/inline/main.go")
	if err != nil {
		t.Fatal(err)
	}
	gomod := "module inline\n\ngo 1.16\n"
	files := map[string]string{"main.go": string(src), "go.mod": gomod}
	env := append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0", "GOTOOLCHAIN=local")
	if cgo {
		b, err := os.ReadFile("testdata/inline/c.go.txt")
		if err != nil {
			t.Fatal(err)
		}
		files["c.go"] = string(b)
		env = append(env, "CGO_ENABLED=1")
	}
	if version != "" {
		env = append(env, "GOTOOLCHAIN=go"+version)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "inline")
	cmd := testenv.Command(t, "go", append(append([]string{"build", "-o", out}, args...), ".")...)
	cmd.Dir, cmd.Env = dir, env
	if msg, err := cmd.CombinedOutput(); err != nil {
		testenv.Need(t, testenv.Got(fmt.Sprintf("Go %s %v", version, args), fmt.Errorf("%w: %s", err, msg),
			"toolchain not available", "module lookup disabled by GOPROXY=off", "dial tcp", "dial udp"))
	}
	return out
}

// TestBuilds compares with the stack that programs of all layouts print of
// themselves; toolchains that are not in the module cache are left out.
func TestBuilds(t *testing.T) {
	const strip = "-ldflags=-s -w"
	for _, c := range []struct {
		name, version string
		cgo           bool
		args          []string
	}{
		{"plain", "", false, nil},
		{"stripped", "", false, []string{strip}},
		{"pie", "", false, []string{strip, "-buildmode=pie"}},
		{"external", "", true, []string{strip + " -linkmode=external"}},
		{"external-pie", "", true, []string{strip + " -linkmode=external", "-buildmode=pie"}},
		{"go1.16", "1.16.15", false, []string{strip}},
		{"go1.17", "1.17.13", false, []string{strip}},
		{"go1.18", "1.18.10", false, []string{strip}},
		{"go1.18-pie", "1.18.10", false, []string{strip, "-buildmode=pie"}},
		{"go1.20", "1.20.14", false, []string{strip}},
		{"go1.21-pie", "1.21.13", false, []string{strip, "-buildmode=pie"}},
		{"go1.24", "1.24.1", false, []string{strip}},
		{"go1.24-pie", "1.24.1", false, []string{strip, "-buildmode=pie"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkBuild(t, build(t, c.version, c.cgo, c.args...))
		})
	}
}

func checkBuild(t *testing.T, path string) {
	out, err := testenv.Command(t, path).Output()
	if err != nil {
		t.Fatal(err)
	}
	compareStack(t, out, open(t, path))
	// And once more without a section table, as sstrip leaves it.
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[40:48]) // e_shoff
	clear(b[60:64]) // e_shnum, e_shstrndx
	f, err := elffile.NewBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tab, err := New(f)
	if err != nil {
		t.Fatalf("without sections: %v", err)
	}
	compareStack(t, out, tab)
}

// compareStack compares with a stack that a program printed of itself.
func compareStack(t *testing.T, out []byte, tab *Table) {
	t.Helper()
	var want, got []string
	var slide uint64
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		var pc uint64
		if n, _ := fmt.Sscanf(line, "pc %x", &pc); n == 0 {
			want = append(want, line)
			continue
		}
		if got == nil {
			slide = slideOf(t, tab, pc)
		}
		pc -= slide
		fn, ok := tab.Find(pc)
		if !ok {
			t.Fatalf("%#x is in no function", pc)
		}
		for _, c := range fn.Calls(nil, pc) {
			n, _ := fn.Line(c.PC)
			off, _ := fn.FileOffset(c.PC)
			s := fmt.Sprintf("%s %s:%d", tab.NameAt(c.Name), tab.FileAt(off), n)
			// The program lists an address for every inlined call already.
			if !slices.Contains(got, s) {
				got = append(got, s)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nthe program says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(want) < 5 || !strings.Contains(want[1], "main.inner") {
		t.Errorf("the program's stack is not the expected one: %q", want)
	}
}

// slideOf finds where a position independent program was loaded: its first
// address is in main.show.
func slideOf(t *testing.T, tab *Table, pc uint64) uint64 {
	for i := range tab.Len() {
		fn, ok := tab.Func(i)
		if !ok || string(fn.Name()) != "main.show" {
			continue
		}
		if fn.Entry <= pc && pc < fn.End {
			return 0
		}
		for at := fn.Entry; at < fn.End; at++ {
			if (pc-at)&0xfff == 0 {
				return pc - at
			}
		}
	}
	t.Fatal("no main.show")
	return 0
}

// FuzzTable reads a program with some bytes of its table changed: nothing may
// panic, and every answer must lie within the file.
func FuzzTable(f *testing.F) {
	exe, err := os.Executable()
	if err != nil || runtime.GOOS != "linux" {
		f.Skip("needs an ELF file")
	}
	orig := open(f, exe)
	s := Section(orig.f)
	table, err := orig.f.Data(s)
	if err != nil {
		f.Fatal(err)
	}
	table = slices.Clone(table[:min(len(table), 1<<20)])
	f.Add(uint32(8), uint64(1<<40), uint64(0x401000))
	f.Add(uint32(16), uint64(3), uint64(0x400000))
	f.Fuzz(func(t *testing.T, at uint32, v uint64, pc uint64) {
		b := slices.Clone(table)
		for i := range 8 {
			if int(at)+i < len(b) {
				b[int(at)+i] = byte(v >> (8 * i))
			}
		}
		tab := &Table{f: orig.f, addr: orig.addr, le: orig.le, gofunc: orig.gofunc}
		if tab.header(b) != nil {
			return
		}
		tab.text = orig.text
		fn, ok := tab.Find(pc)
		if !ok {
			return
		}
		if pc < fn.Entry {
			t.Errorf("%#x is not in the function at %#x", pc, fn.Entry)
		}
		for _, c := range fn.Calls(nil, pc) {
			fn.Line(c.PC)
			if off, ok := fn.FileOffset(c.PC); ok && len(tab.FileAt(off)) > len(b) {
				t.Error("a path is longer than the table")
			}
			tab.NameAt(c.Name)
		}
		if runs, ok := fn.Runs(nil, 1<<10); ok && pc < fn.End {
			compareRun(t, &fn, runAt(runs, pc-fn.Entry), fn.Calls(nil, pc))
		}
		fn.SPDelta(pc)
		fn.StartLine()
	})
}
