package testenv

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// pythonName matches the interpreters that package stack supports.
var pythonName = regexp.MustCompile(`/python3\.1[123]$`)

// Pythons returns this machine's interpreters of CPython 3.11 to 3.13, each once: those in
// PATH and pyenv's. It skips the test if there are none.
func Pythons(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		for _, name := range []string{"python3", "python3.11", "python3.12", "python3.13"} {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	root := os.Getenv("PYENV_ROOT")
	if root == "" {
		home, _ := os.UserHomeDir()
		root = filepath.Join(home, ".pyenv")
	}
	installed, _ := filepath.Glob(filepath.Join(root, "versions", "*", "bin", "python3.1?"))
	var out []string
	seen := make(map[string]bool)
	for _, p := range append(paths, installed...) {
		p, err := filepath.EvalSymlinks(p)
		if err != nil || seen[p] || !pythonName.MatchString(p) {
			continue
		}
		if f, err := elf.Open(p); err == nil { // not a script that selects one
			f.Close()
			seen[p] = true
			out = append(out, p)
		}
	}
	var err error
	if len(out) == 0 {
		err = fmt.Errorf("no python3.11 to python3.13: %w", exec.ErrNotFound)
	}
	Need(t, Got("CPython 3.11 to 3.13", err))
	return out
}
