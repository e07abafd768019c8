package lifebuild_test

import (
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/borescope/borescope/internal/lifebuild"
	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestFiles: the functions are at one address.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	lifebuild.Executed(t, dir, "executed", 2)
	lifebuild.Single(t, dir, "single")
	lifebuild.Mapped(t, dir, "mapped")
	for _, names := range [][]string{{"executed0", "executed1"}, {"single0", "single1"}, {"first.so", "second.so"}} {
		for i, function := range []string{lifebuild.First, lifebuild.Second} {
			f, err := elf.Open(filepath.Join(dir, names[i]))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			syms, err := f.Symbols()
			if err != nil || len(syms) != 1 || syms[0].Name != function || syms[0].Value != 0x401000 {
				t.Errorf("%s: %v, %v", names[i], syms, err)
			}
		}
	}
}

// TestRuns: the programs end, and with status 0.
func TestRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		testenv.Need(t, testenv.Native)
	}
	testenv.Need(t, testenv.Arch("amd64"))
	dir := t.TempDir()
	first, second := lifebuild.Single(t, dir, "single")
	for _, path := range []string{lifebuild.Executed(t, dir, "lives", 4), first, second, lifebuild.Mapped(t, dir, "mapped")} {
		if err := testenv.Command(t, path).Run(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestNumbered: a program runs in a process with a number that is free, and in none if it is not.
func TestNumbered(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Arch("amd64"))
	dir := t.TempDir()
	first, _ := lifebuild.Single(t, dir, "single")
	cmd := testenv.Command(t, first)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := testenv.Command(t, lifebuild.Numbered(t, dir, cmd.Process.Pid, first)).Run(); err != nil {
		t.Error(err)
	}
	cmd = testenv.Command(t, lifebuild.Numbered(t, dir, os.Getpid(), first))
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("with the number of this process it ends with %d", cmd.ProcessState.ExitCode())
	}
}
