package container

import (
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// BenchmarkResolve is a group that is known, and one that is looked up.
func BenchmarkResolve(b *testing.B) {
	testenv.Need(b, testenv.Root)
	b.Run("known", func(b *testing.B) {
		r := New(nil)
		r.Observe(7, "/docker/"+id1)
		for b.Loop() {
			r.Resolve(7)
		}
	})
	b.Run("new", func(b *testing.B) {
		if _, err := New(nil).mount(); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, ok := New(nil).Resolve(1); !ok {
				b.Fatal("the root is not found")
			}
		}
	})
}
