package symbol

import (
	"bytes"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// chainOf writes frames as addr2line does: "function file:line …".
func chainOf(frames []Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "%s %s:%d ", f.Name, filepath.Base(f.File), f.Line)
	}
	return strings.TrimSpace(b.String())
}

// textAddr is the address of a file's code: where the offsets in .text of an
// object file begin.
func textAddr(t *testing.T, path string) uint64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Type != elf.ET_REL {
		return 0
	}
	return f.Section(".text").Offset
}

// TestArchitectures compares names, lines and inlined calls with those that
// addr2line gives, in programs and in object files of either class and byte
// order: testdata/dwarf/build.sh.
func TestArchitectures(t *testing.T) {
	goldens, err := filepath.Glob("testdata/dwarf/*.txt")
	if err != nil || len(goldens) != 16 {
		t.Fatalf("%d files: %v", len(goldens), err)
	}
	for _, golden := range goldens {
		path := strings.TrimSuffix(golden, ".txt")
		t.Run(filepath.Base(path), func(t *testing.T) {
			base := textAddr(t, path)
			e, err := OpenELF(path, &ELFOptions{Source: true, DebugDirs: []string{}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			b, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			inlined := 0
			for line := range strings.Lines(string(b)) {
				addr, want, _ := strings.Cut(strings.TrimSpace(line), " ")
				var pc uint64
				if _, err := fmt.Sscanf(addr, "%x", &pc); err != nil {
					t.Fatal(err)
				}
				frames := e.Resolve(nil, []uint64{base + pc})
				if got := chainOf(frames); got != want {
					t.Errorf("%s: got %s\naddr2line says %s", addr, got, want)
				}
				inlined += len(frames) - 1
			}
			if inlined < 10 {
				t.Errorf("only %d inlined calls", inlined)
			}
			// And back: the address of a name is one that has the name.
			s, err := e.Lookup("outer")
			if err != nil {
				t.Fatal(err)
			}
			if f := e.Resolve(nil, []uint64{s.Addr}); f[len(f)-1].Name != "outer" || f[len(f)-1].Offset != 0 || !s.HasOffset {
				t.Errorf("outer is at %#x, where there is %s", s.Addr, chainOf(f))
			}
			if off, ok := e.Offset(s.Addr); !ok || off != s.Offset {
				t.Errorf("offset of %#x is %#x", s.Addr, off)
			}
			if v, ok := e.VAddr(s.Offset); !ok || v != s.Addr {
				t.Errorf("address of %#x is %#x", s.Offset, v)
			}
		})
	}
}

// TestObjectSections asks for functions in sections of their own, each of which
// begins at 0, of an object file and of one whose debug information is in
// another file: the linked program says the same of them.
func TestObjectSections(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"), testenv.Tool("objcopy"))
	dir := t.TempDir()
	src, err := filepath.Abs("testdata/dwarf/inline.c")
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := testenv.Command(t, name, args...)
		cmd.Dir = dir
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, msg)
		}
	}
	run("gcc", "-O2", "-g", "-ffunction-sections", "-ffreestanding", "-c", "-o", "full.o", src)
	run("gcc", "-nostdlib", "-static", "-Wl,-e,entry", "-o", "linked", "full.o")
	run("objcopy", "--only-keep-debug", "full.o", "stripped.debug")
	run("objcopy", "--strip-debug", "--add-gnu-debuglink=stripped.debug", "full.o", "stripped.o")
	linked, err := OpenELF(filepath.Join(dir, "linked"), &ELFOptions{Source: true})
	if err != nil {
		t.Fatal(err)
	}
	defer linked.Close()
	for _, name := range []string{"full.o", "stripped.o"} {
		e, err := OpenELF(filepath.Join(dir, name), &ELFOptions{Source: true})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		n := 0
		for _, fn := range []string{"outer", "entry"} {
			from, err := linked.Lookup(fn)
			if err != nil {
				t.Fatal(err)
			}
			to, err := e.Lookup(fn)
			if err != nil {
				t.Fatal(err)
			}
			for off := range from.Size {
				want := chainOf(linked.Resolve(nil, []uint64{from.Addr + off}))
				if got := chainOf(e.Resolve(nil, []uint64{to.Addr + off})); got != want {
					t.Fatalf("%s: %s+%#x: got %s, want %s", name, fn, off, got, want)
				}
				n++
			}
		}
		if n < 50 {
			t.Errorf("%s: only %d addresses", name, n)
		}
	}
}

// TestDamaged reads programs and object files of all architectures with a few
// bytes changed: nothing panics, and an address without a name has a reason.
func TestDamaged(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/*/*.elf", "testdata/*/*.o"} {
		m, err := filepath.Glob(pattern)
		if err != nil || len(m) < 5 {
			t.Fatalf("%s: %d files, %v", pattern, len(m), err)
		}
		files = append(files, m...)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for _, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 150 {
			b := bytes.Clone(whole)
			for range 1 + rng.IntN(4) {
				b[rng.IntN(len(b))] = byte(rng.Uint32())
			}
			e, err := NewELF(bytes.NewReader(b), int64(len(b)), &ELFOptions{Source: true, DebugDirs: []string{}})
			if err != nil {
				continue
			}
			for _, f := range e.Resolve(nil, []uint64{0, 0x40, 0x80, 0x1b4, 0x400100, 0x10100, 1<<64 - 1}) {
				if (f.Name == "") != (f.Reason != ReasonNone) {
					t.Fatalf("%s: %+v", path, f)
				}
			}
			_, _ = e.Match(nil) // an error is an answer
			e.Close()
		}
	}
}
