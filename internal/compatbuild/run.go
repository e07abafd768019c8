package compatbuild

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// Write writes a program to a directory of the test's, and returns its path.
func Write(t testing.TB, image []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "calls32")
	if err := os.WriteFile(path, image, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Runs is the requirement that this kernel runs 32-bit programs.
var Runs = testenv.Check("32-bit programs", sync.OnceValue(runs))

func runs() error {
	dir, err := os.MkdirTemp("", "calls32")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "exit")
	if err := os.WriteFile(path, Program(runtime.GOARCH), 0o755); err != nil {
		return err
	}
	return testenv.Command(nil, path).Run()
}
