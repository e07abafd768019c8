package examples_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// TestCopied checks copies of the tools, each as the directory of a module that is not
// this one: what users do who begin with one of them. None imports what only this module
// may.
func TestCopied(t *testing.T) {
	testenv.Need(t, testenv.Go)
	dir := t.TempDir()
	mains, err := filepath.Glob("*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("tools: %v, %v", mains, err)
	}
	for _, m := range mains {
		tool := filepath.Dir(m)
		if err := os.CopyFS(filepath.Join(dir, tool), os.DirFS(tool)); err != nil {
			t.Fatal(err)
		}
		tests, err := filepath.Glob(filepath.Join(dir, tool, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tests { // which are this project's own
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeModule(t, dir)
	// go vet checks as much as the compiler does, and links nothing: 2 seconds, where
	// go build takes 80.
	cmd := testenv.Command(t, "go", "vet", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// writeModule makes a module of dir, which finds this one where it is.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	repo, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	goVersion := ""
	for line := range strings.Lines(read(t, "../go.mod")) {
		if strings.HasPrefix(line, "go ") {
			goVersion = line
		}
	}
	const module = "github.com/borescope/borescope"
	mod := "module example.com/copied\n" + goVersion +
		"require " + module + " v0.0.0\nreplace " + module + " => " + strconv.Quote(repo) + "\n"
	for name, text := range map[string]string{"go.mod": mod, "go.sum": read(t, "../go.sum")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
