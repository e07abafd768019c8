package symbol

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// noLineProgram is compiled, and returned with its function f's address.
func noLineProgram(t *testing.T) (path string, addr uint64) {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, "a.c")
	if err := os.WriteFile(src, []byte("int f(int x) { return x + 1; }\nint main(void) { return f(-1); }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "a")
	tool(t, "gcc", "-O0", "-gdwarf-5", "-o", path, src)
	e, err := OpenELF(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Lookup("f")
	if err != nil {
		t.Fatal(err)
	}
	return path, s.Addr
}

func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := testenv.Command(t, name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// edit changes the bytes of a section, or has it contain others.
func edit(t *testing.T, path, section string, change func(b []byte), other []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range f.Sections {
		if s.Name != section {
			continue
		}
		if change != nil {
			change(b[s.Offset : s.Offset+s.FileSize])
		}
		if other != nil { // Elf64_Shdr: sh_flags is at 8, sh_offset at 24, sh_size at 32
			hdr := b[binary.LittleEndian.Uint64(b[40:])+64*uint64(i):]
			binary.LittleEndian.PutUint64(hdr[8:], uint64(elf.SHF_COMPRESSED))
			binary.LittleEndian.PutUint64(hdr[24:], uint64(len(b)))
			binary.LittleEndian.PutUint64(hdr[32:], uint64(len(other)))
			b = append(b, other...)
		}
	}
	if err := os.WriteFile(path, b, 0o700); err != nil {
		t.Fatal(err)
	}
}

// zeros is a compressed section of n zeros.
func zeros(n int) []byte {
	var b bytes.Buffer
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(elf.COMPRESS_ZLIB)))
	b.Write(make([]byte, 4))
	b.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	b.Write(binary.LittleEndian.AppendUint64(nil, 1))
	w := zlib.NewWriter(&b)
	w.Write(make([]byte, n))
	w.Close()
	return b.Bytes()
}

// TestNoLine: a function without a line did not say why, whether its file had no debug
// information, or some that was refused.
func TestNoLine(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"), testenv.Tool("objcopy"), testenv.Tool("strip"))
	for _, c := range []struct {
		name    string
		prepare func(path string)
		room    int64
		want    Reason
	}{
		{"whole", func(string) {}, 0, ReasonNone},
		{"stripped", func(path string) { tool(t, "strip", "-g", path) }, 0, ReasonNoDebug},
		{"elsewhere", func(path string) {
			tool(t, "objcopy", "--only-keep-debug", path, path+".debug")
			tool(t, "strip", "-g", path)
			tool(t, "objcopy", "--add-gnu-debuglink="+path+".debug", path)
			if err := os.Remove(path + ".debug"); err != nil {
				t.Fatal(err)
			}
		}, 0, ReasonNoDebugFile},
		{"malformed lines", func(path string) {
			edit(t, path, ".debug_line", func(b []byte) { copy(b, "\xff\xff\xff\x7f") }, nil)
		}, 0, ReasonBadDebug},
		{"malformed units", func(path string) {
			edit(t, path, ".debug_info", func(b []byte) { copy(b, "\xff\xff\xff\x7f") }, nil)
		}, 0, ReasonBadDebug},
		{"too large lines", func(path string) { edit(t, path, ".debug_line", nil, zeros(64<<20)) }, 0, ReasonTooLarge},
		{"too large units", func(path string) { edit(t, path, ".debug_info", nil, zeros(64<<20)) }, 0, ReasonTooLarge},
		{"small budget", func(string) {}, 700, ReasonTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, addr := noLineProgram(t)
			c.prepare(path)
			e, err := OpenELF(path, &ELFOptions{Source: true})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			e.room = c.room
			for range 2 { // the second time from the names that are kept
				fr := e.Resolve(nil, []uint64{addr})[0]
				if fr.Name != "f" || (fr.Line == 0) != (c.want != ReasonNone) || fr.NoLine != c.want {
					t.Errorf("%s:%d, %q; want %q", fr.Name, fr.Line, fr.NoLine, c.want)
				}
			}
		})
	}
}

// TestNoLineNotAsked: who did not ask for lines gets no reason.
func TestNoLineNotAsked(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"))
	path, addr := noLineProgram(t)
	e, err := OpenELF(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if fr := e.Resolve(nil, []uint64{addr})[0]; fr.NoLine != ReasonNone {
		t.Errorf("without Source: %v", fr.NoLine)
	}
}

// TestFilteredDebugdata: a .gnu_debugdata that was compressed with the filter for executables
// gave no names, without a word.
func TestFilteredDebugdata(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"), testenv.Tool("objcopy"), testenv.Tool("xz"))
	path, addr := noLineProgram(t)
	mini := path + ".mini"
	tool(t, "objcopy", "-g", path, mini)
	tool(t, "xz", "-k", "--x86", "--lzma2", mini)
	tool(t, "objcopy", "-S", "--add-section", ".gnu_debugdata="+mini+".xz", path)
	e, err := OpenELF(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if fr := e.Resolve(nil, []uint64{addr})[0]; fr.Name != "f" {
		t.Errorf("%q, %v", fr.Name, fr.Reason)
	}
}
