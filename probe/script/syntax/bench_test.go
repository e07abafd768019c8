package syntax

import (
	"os"
	"path/filepath"
	"testing"
)

// scripts are the test scripts by name.
func scripts(b *testing.B) map[string][]byte {
	files, err := filepath.Glob("testdata/*.bt")
	if err != nil {
		b.Fatal(err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		if all[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			b.Fatal(err)
		}
	}
	return all
}

func BenchmarkParse(b *testing.B) {
	for name, text := range scripts(b) {
		b.Run(name, func(b *testing.B) {
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
	for name, text := range scripts(b) {
		f, err := Parse(name, text, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Format(f)
			}
		})
	}
}
