package insn

import (
	"bufio"
	"debug/elf"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// TestObjdump compares the length of every instruction of whole files with
// objdump's: of C, of assembly with all extensions of vectors, and of Go.
func TestObjdump(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Tool("objdump"))
	files := []string{
		"/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/lib64/libcrypto.so.3",
	}
	if link, err := exec.LookPath("go"); err == nil {
		path, err := filepath.EvalSymlinks(link)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, path, filepath.Join(filepath.Dir(path), "../pkg/tool", runtime.GOOS+"_"+runtime.GOARCH, "compile"))
	}
	files = append(files, filepath.SplitList(os.Getenv("BORESCOPE_INSN_FILES"))...)
	if exe, err := os.Executable(); err == nil {
		files = append(files, exe)
	}
	for _, path := range files {
		f, err := elf.Open(path)
		if err != nil {
			continue
		}
		f.Close()
		t.Run(filepath.Base(path), func(t *testing.T) { compareObjdump(t, path, f.Machine) })
	}
}

func compareObjdump(t *testing.T, path string, m elf.Machine) {
	cmd := testenv.Command(t, "objdump", "-d", "-w", "-z", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	total, unknown, wrong := 0, 0, 0
	for s := bufio.NewScanner(out); s.Scan(); {
		code, text := parseObjdump(s.Text())
		if len(code) == 0 || m == elf.EM_X86_64 && !comparable(code, text) {
			continue
		}
		total++
		in, err := Decode(m, code)
		switch {
		case err != nil:
			if unknown++; unknown < 10 {
				t.Logf("% x %s: %v", code, text, err)
			}
		case in.Len != len(code):
			if wrong++; wrong < 10 {
				t.Errorf("% x %s: length %d", code, text, in.Len)
			}
		}
	}
	if err := cmd.Wait(); err != nil || total == 0 {
		t.Fatalf("objdump: %d instructions, %v", total, err)
	}
	t.Logf("%d instructions, %d of another length, %d unknown", total, wrong, unknown)
	if unknown > total/1000 { // what else there is, is data
		t.Errorf("%d of %d instructions are not known", unknown, total)
	}
}

// comparable tells whether objdump's line is one instruction: of data between
// functions it makes what it can, prefixes without an opcode too, and it joins
// fwait with what follows.
func comparable(code []byte, text string) bool {
	alone := len(code) == 1 && (code[0]&0xf0 == 0x40 || code[0]&0xfc == 0x64 || strings.Contains("\xf0\xf2\xf3\x26\x2e\x36\x3e", string(code)))
	return !alone && !strings.Contains(text, "(bad)") && !(code[0] == 0x9b && len(code) > 1)
}

// parseObjdump reads "  401136:\t48 89 e5 \tmov ...".
func parseObjdump(line string) (code []byte, text string) {
	parts := strings.SplitN(line, "\t", 3)
	if len(parts) < 3 || !strings.HasSuffix(parts[0], ":") {
		return nil, ""
	}
	words := strings.Fields(parts[1])
	code, err := hex.DecodeString(strings.Join(words, ""))
	if err != nil {
		return nil, ""
	}
	if len(words) == 1 && len(code) == 4 { // arm64: one word
		code = []byte{code[3], code[2], code[1], code[0]}
	}
	return code, parts[2]
}
