package examples_test

import (
	"go/build"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

const module = "github.com/borescope/borescope"

// notCopied are tools that a user who copies them cannot compile yet, because they import
// something internal. One that compiles is to be taken off the list.
var notCopied = []string{
	"bt", "capture", "corestack", "elfnotes", "hist", "lsym", "offcputime", "orcdump", "perfstat", "profile",
	"replay", "stackcount", "symbolize", "syscount", "tick", "tplist", "wakeuptime",
}

// TestCopied checks copies of the tools, each as the directory of a module that is not
// this one: what users do who begin with one of them.
func TestCopied(t *testing.T) {
	testenv.Need(t, testenv.Go)
	dir := t.TempDir()
	mains, err := filepath.Glob("*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("tools: %v, %v", mains, err)
	}
	for _, m := range mains {
		tool := filepath.Dir(m)
		internal := copyTool(t, filepath.Join(dir, tool), tool)
		switch listed := slices.Contains(notCopied, tool); {
		case internal != nil && !listed:
			t.Errorf("%s cannot be copied: it imports %q", tool, internal)
		case internal == nil && listed:
			t.Errorf("%s imports nothing internal: take it off the list", tool)
		}
		if internal != nil { // it would keep the others from being compiled
			if err := os.RemoveAll(filepath.Join(dir, tool)); err != nil {
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
	mod := "module example.com/copied\n" + goVersion +
		"require " + module + " v0.0.0\nreplace " + module + " => " + strconv.Quote(repo) + "\n"
	for name, text := range map[string]string{"go.mod": mod, "go.sum": read(t, "../go.sum")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// copyTool copies a tool, for all systems and with what it embeds, but for its tests, and
// returns what it imports that only this module may.
func copyTool(t *testing.T, to, from string) (internal []string) {
	t.Helper()
	p, err := build.ImportDir(from, 0)
	if err != nil {
		t.Fatal(err)
	}
	files := slices.Concat(p.GoFiles, p.SFiles, p.HFiles)
	for _, name := range p.IgnoredGoFiles { // of other systems
		if !strings.HasSuffix(name, "_test.go") {
			files = append(files, name)
		}
	}
	for _, pattern := range p.EmbedPatterns {
		embedded, err := filepath.Glob(filepath.Join(from, strings.TrimPrefix(pattern, "all:")))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range embedded {
			files = append(files, strings.TrimPrefix(name, from+string(filepath.Separator)))
		}
	}
	for _, name := range files {
		if err := copyAll(filepath.Join(to, name), filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range p.Imports {
		rest, ours := strings.CutPrefix(path, module+"/")
		if ours && slices.Contains(strings.Split(rest, "/"), "internal") {
			internal = append(internal, rest)
		}
	}
	return internal
}

// copyAll copies a file, or a directory and what is in it.
func copyAll(to, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
