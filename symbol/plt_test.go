package symbol

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPLTArchitectures compares with the names that objdump gives the linkage
// tables of all architectures: testdata/plt/build.sh.
func TestPLTArchitectures(t *testing.T) {
	files, err := filepath.Glob("testdata/plt/*.elf")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".elf"), func(t *testing.T) {
			e, err := OpenELF(path, &ELFOptions{DebugDirs: []string{}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			golden, err := os.ReadFile(strings.TrimSuffix(path, ".elf") + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			var first, last, pc uint64
			n := 0
			for line := range strings.Lines(string(golden)) {
				var name string
				if k, err := fmt.Sscanf(line, "%x %s", &pc, &name); k != 2 {
					t.Fatal(err)
				}
				if n++; n == 1 {
					first = pc
				}
				last = pc
				for _, off := range []uint64{0, 3} {
					if f := e.Resolve(nil, []uint64{pc + off})[0]; f.Name != name || f.Kind != KindPLT || f.Offset != off {
						t.Errorf("%#x: objdump says %s, got %+v", pc+off, name, f)
					}
				}
			}
			if n != 3 {
				t.Errorf("%d entries", n)
			}
			// What surrounds the entries belongs to none of them.
			size := (last - first) / 2
			for _, pc := range []uint64{first - 1, first - 16, last + size + 16} {
				if f := e.Resolve(nil, []uint64{pc})[0]; f.Kind == KindPLT {
					t.Errorf("%#x: got %+v", pc, f)
				}
			}
		})
	}
}

// TestPLTMold386Unchecked: from 2.38 on, mold's entries for 386 have no endbr32, so
// that those of .plt.got are half as long (its src/arch-i386.cc). The fixture's are
// rewritten so.
func TestPLTMold386Unchecked(t *testing.T) {
	b, err := os.ReadFile("testdata/plt/386-mold.elf")
	if err != nil {
		t.Fatal(err)
	}
	const plt, entries = 0x240, 3
	for at := plt + 16; at < plt+16+16*entries; at += 16 {
		if !bytes.HasPrefix(b[at:], endbr32) {
			t.Fatalf("% x", b[at:at+16])
		}
		copy(b[at:], append(b[at+4:at+16:at+16], int3, int3, int3, int3))
	}
	path := filepath.Join(t.TempDir(), "unchecked.elf")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := OpenELF(path, &ELFOptions{DebugDirs: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for pc, want := range map[uint64]string{0x1240: "", 0x1250: "alpha@plt", 0x1260: "beta@plt", 0x1270: "gamma_rays@plt", 0x1277: "gamma_rays@plt", 0x1278: ""} {
		if f := e.Resolve(nil, []uint64{pc})[0]; f.Name != want {
			t.Errorf("%#x: got %+v, want %q", pc, f, want)
		}
	}
}
