package usercode

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/insn"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// TestReturns compares the return instructions of each function with objdump.
func TestReturns(t *testing.T) {
	testenv.Need(t, testenv.Tool("objdump"))
	path := probetest.TargetPath()
	out, err := testenv.Command(t, "objdump", "-d", "--no-show-raw-insn", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	name := ""
	for line := range strings.Lines(string(out)) {
		if i := strings.IndexByte(line, '<'); i > 0 && strings.HasSuffix(strings.TrimSpace(line), ">:") {
			name = strings.TrimSuffix(strings.TrimSpace(line[i+1:]), ">:")
		}
		f := strings.Fields(line)
		if len(f) > 1 && (f[1] == "ret" || f[1] == "retq") {
			want[name]++
		}
	}
	checkReturns(t, path, want)
}

func checkReturns(t *testing.T, path string, want map[string]int) {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = userfile.WithELF(env.New(nil), userfile.Sources{}, abs, func(f *elffile.File) error {
		return userfile.Symbols(t.Context(), f, func([]byte) bool { return true }, func(s userfile.Symbol) error {
			text, err := userfile.Code(f, s.Value, s.Size)
			if err != nil {
				return err
			}
			rets, err := Returns(f.Machine, text)
			if err != nil {
				return err
			}
			if len(rets) != want[s.Name] {
				t.Errorf("%s returns at %v, objdump has %d", s.Name, rets, want[s.Name])
			}
			seen++
			return nil
		})
	})
	if err != nil || seen < 5 {
		t.Errorf("%d functions, %v", seen, err)
	}
}

// TestInsnLengths walks all functions of libc, and compares where instructions
// begin and which return with objdump.
func TestInsnLengths(t *testing.T) {
	testenv.Need(t, testenv.Tool("objdump"), testenv.File("/etc/ld.so.cache"))
	e := env.New(nil)
	path, err := userfile.FindByName(e, "libc.so.6", 0)
	if err != nil {
		t.Fatal(err)
	}
	out, err := testenv.Command(t, "objdump", "-d", "--no-show-raw-insn", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	begins := map[uint64]bool{} // and whether it returns
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasSuffix(f[0], ":") {
			continue
		}
		if addr, err := strconv.ParseUint(strings.TrimSuffix(f[0], ":"), 16, 64); err == nil {
			begins[addr] = f[1] == "ret" || len(f) > 2 && f[2] == "ret"
		}
	}
	functions := 0
	err = userfile.WithELF(e, userfile.Sources{}, path, func(f *elffile.File) error {
		return userfile.Symbols(t.Context(), f, func([]byte) bool { return true }, func(s userfile.Symbol) error {
			text, err := userfile.Code(f, s.Value, s.Size)
			if err != nil {
				return nil
			}
			functions++
			for off := 0; off < len(text); {
				isRet, ok := begins[s.Value+uint64(off)]
				in, err := insn.Decode(f.Machine, text[off:])
				switch {
				case err != nil:
					t.Errorf("%s+%d: %v", s.Name, off, err)
					return nil
				case !ok || in.Ret != isRet:
					t.Errorf("%s+%d: % x: begins %v, returns %v; objdump says %v", s.Name, off, text[off:min(off+8, len(text))], ok, in.Ret, isRet)
					return nil
				}
				off += in.Len
			}
			return nil
		})
	})
	if err != nil || functions < 1000 {
		t.Errorf("%d functions, %v", functions, err)
	}
	err = userfile.WithELF(e, userfile.Sources{}, path, func(f *elffile.File) error {
		checkBoundaries(t, &Boundaries{Ctx: t.Context(), F: f}, begins)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// checkBoundaries checks Boundaries at part of a file's addresses, where instructions begin,
// and one byte further. It skips functions that only the code shows, because Boundaries cannot
// decide there.
func checkBoundaries(t *testing.T, b *Boundaries, begins map[uint64]bool) {
	t.Helper()
	const each = 37
	yes, no := 0, 0
	for i, addr := range slices.Sorted(maps.Keys(begins)) {
		if i%each != 0 {
			continue
		}
		err := b.Check(addr)
		if err == nil {
			yes++
		} else if !strings.Contains(err.Error(), "in no function") {
			t.Errorf("%#x, where an instruction begins: %v", addr, err)
		}
		if _, ok := begins[addr+1]; ok {
			continue
		}
		if no++; b.Check(addr+1) == nil {
			t.Errorf("%#x is taken for an instruction", addr+1)
		}
	}
	if yes < len(begins)/each/2 || no == 0 {
		t.Errorf("of %d instructions every %dth: %d are told, %d within them", len(begins), each, yes, no)
	}
}
