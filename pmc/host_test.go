package pmc

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// host is a recorded or written machine of testdata/hosts: a txtar archive,
// whose first lines say where it is from.
func host(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "hosts", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	root := fstest.MapFS{}
	var current *fstest.MapFile
	for line := range bytes.Lines(b) {
		text := strings.TrimSuffix(string(line), "\n")
		if path, ok := strings.CutPrefix(text, "-- "); ok && strings.HasSuffix(path, " --") {
			current = &fstest.MapFile{Mode: 0o444}
			root[strings.TrimSuffix(path, " --")] = current
			continue
		}
		if current != nil {
			current.Data = append(current.Data, line...)
		}
	}
	return root
}

// hosts are all of them, by name.
func hosts(t testing.TB) map[string]fstest.MapFS {
	t.Helper()
	files, err := filepath.Glob("testdata/hosts/*.txtar")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d host fixtures, want 8 or more (%v)", len(files), err)
	}
	out := map[string]fstest.MapFS{}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txtar")
		out[name] = host(t, name)
	}
	return out
}

// unpack writes a fixture's PMUs below dir.
func unpack(t *testing.T, root fs.FS, dir string) {
	t.Helper()
	sub, err := fs.Sub(root, pmuDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, sub); err != nil {
		t.Fatal(err)
	}
}
