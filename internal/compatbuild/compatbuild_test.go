package compatbuild_test

import (
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/compatbuild"
	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A program writes what it was given, each time, with values that earlier calls returned.
func TestRuns(t *testing.T) {
	testenv.Need(t, compatbuild.Runs)
	calls := []compatbuild.Call{
		{Name: "write", Args: []any{1, "twice\n", 6}, Times: 2},
		{Name: "getpid", Save: true},
		{Name: "kill", Args: []any{compatbuild.Saved{}, 9}},
		{Name: "write", Args: []any{1, "dead\n", 5}},
	}
	images := [][]byte{compatbuild.Program(runtime.GOARCH, calls...)}
	if runtime.GOARCH == "amd64" {
		images = append(images, compatbuild.Program64(calls...))
	}
	for _, image := range images {
		out, err := testenv.Command(t, compatbuild.Write(t, image)).Output()
		if string(out) != "twice\ntwice\n" || err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("%q, %v", out, err)
		}
	}
}

// The files are well-formed for both architectures, on any machine.
func TestFiles(t *testing.T) {
	for arch, want := range map[string]elf.Machine{"amd64": elf.EM_386, "arm64": elf.EM_ARM} {
		path := filepath.Join(t.TempDir(), arch)
		args := []any{[]string{"a", "b"}, []byte{1, 2}, 3}
		image := compatbuild.Program(arch, compatbuild.Call{Name: "writev", Args: args})
		if err := os.WriteFile(path, image, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Machine != want || f.Class != elf.ELFCLASS32 || len(f.Progs) != 2 {
			t.Errorf("%s: %v %v, %d segments", arch, f.Machine, f.Class, len(f.Progs))
		}
	}
}
