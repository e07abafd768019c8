package pclntab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/decompress"
	"github.com/borescope/borescope/internal/elffile"
)

// TestOldVersions compares with what programs made by old versions of Go printed
// of themselves when the files in testdata/old were made.
func TestOldVersions(t *testing.T) {
	files, err := filepath.Glob("testdata/old/*.xz")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".xz"), func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if b, err = decompress.All(decompress.XZ, b, 8<<20); err != nil {
				t.Fatal(err)
			}
			out, err := os.ReadFile(strings.TrimSuffix(path, ".xz") + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			f, err := elffile.NewBytes(b)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			tab, err := New(f)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]int{"go1.16": 116, "go1.18": 118, "go1.20": 120}[filepath.Base(path)[:6]]
			if tab.version != want {
				t.Errorf("version %d, want %d", tab.version, want)
			}
			compareStack(t, out, tab)
		})
	}
}
