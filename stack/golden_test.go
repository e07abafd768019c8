package stack

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write golden files instead of comparing")

// golden compares got with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: output changed (%d bytes, want %d); look at it, then run with -update", path, len(got), len(want))
	}
}

func readFolded(t testing.TB, name string) *Folded {
	t.Helper()
	r, err := os.Open(filepath.Join("testdata", "folded", name))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := ParseFolded(r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
