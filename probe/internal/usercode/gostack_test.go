package usercode

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/insn"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// TestStackCheck: in a whole program, of both architectures, the stack check is
// found in exactly the functions that call runtime.morestack.
func TestStackCheck(t *testing.T) {
	testenv.Need(t, testenv.Go)
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "gotarget")
			cmd := testenv.Command(t, "go", "build", "-o", path, "../../testdata/gotarget/main.go")
			cmd.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			f, err := elffile.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			checkProgram(t, f)
		})
	}
}

// TestStackCheckToolchain is TestStackCheck for Go's own programs, as they are
// installed: frames of all sizes.
func TestStackCheckToolchain(t *testing.T) {
	testenv.Need(t, testenv.Go, testenv.Long)
	out, err := testenv.Command(t, "go", "env", "GOROOT", "GOTOOLDIR").Output()
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(string(out))
	for _, path := range []string{dirs[0] + "/bin/go", dirs[0] + "/bin/gofmt", dirs[1] + "/compile"} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			testenv.Need(t, testenv.File(path))
			f, err := elffile.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			checkProgram(t, f)
		})
	}
}

func checkProgram(t *testing.T, f *elffile.File) {
	t.Helper()
	var fns []userfile.Symbol
	morestack := map[uint64]bool{}
	err := userfile.Symbols(t.Context(), f, func([]byte) bool { return true }, func(s userfile.Symbol) error {
		if strings.HasPrefix(s.Name, "runtime.morestack") {
			morestack[s.Value] = true
		} else if s.Size > 0 {
			fns = append(fns, s)
		}
		return nil
	})
	if err != nil || len(morestack) < 2 {
		t.Fatalf("%v, morestack %v", err, morestack)
	}
	found := 0
	for _, s := range fns {
		text, err := userfile.Code(f, s.Value, s.Size)
		if err != nil {
			continue
		}
		want, got := calls(f.Machine, text, s.Value, morestack), BehindStackCheck(f, s)
		if want != (got > 0) {
			t.Errorf("%s: stack check %v, found at +%d: % x", s.Name, want, got, text[:min(40, len(text))])
		}
		if got > 0 {
			found++
			if err := CheckBoundary(f.Machine, text, got); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
	}
	if found < 500 {
		t.Errorf("%d functions with a check of %d", found, len(fns))
	}
	t.Logf("%d of %d functions have a check", found, len(fns))
}

// calls tells whether a function calls one of the targets.
func calls(m elf.Machine, text []byte, at uint64, targets map[uint64]bool) bool {
	for off := 0; off < len(text); {
		in, err := insn.Decode(m, text[off:])
		if err != nil {
			return false
		}
		to := uint64(0)
		if m == elf.EM_X86_64 {
			if i, err := x86asm.Decode(text[off:], 64); err == nil && i.Op == x86asm.CALL {
				if rel, ok := i.Args[0].(x86asm.Rel); ok {
					to = at + uint64(off+in.Len) + uint64(int64(rel))
				}
			}
		} else if i, err := arm64asm.Decode(text[off:]); err == nil && i.Op == arm64asm.BL {
			if rel, ok := i.Args[0].(arm64asm.PCRel); ok {
				to = at + uint64(off) + uint64(int64(rel))
			}
		}
		if targets[to] {
			return true
		}
		off += in.Len
	}
	return false
}
