package syntax

import (
	"os"
	"path/filepath"
	"testing"
)

// scripts are the files of testdata by name, parsed.
func scripts(t testing.TB) map[string]*File {
	t.Helper()
	names, err := filepath.Glob("testdata/*.bt")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	files := map[string]*File{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if files[name], err = Parse(name, b, nil); err != nil {
			t.Fatal(ErrorText(err))
		}
	}
	return files
}

func BenchmarkParse(b *testing.B) {
	for name, f := range scripts(b) {
		text := []byte(f.In.Content)
		b.Run(filepath.Base(name), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := Parse(name, text, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFormat(b *testing.B) {
	for name, f := range scripts(b) {
		b.Run(filepath.Base(name), func(b *testing.B) {
			for b.Loop() {
				Format(f)
			}
		})
	}
}
