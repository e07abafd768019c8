package syntax

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// FuzzFormat: what is accepted parses to the same tree when it is formatted, and stays as
// it is when it is formatted again, with the comments that it had; locations are within the
// text; passes leave what they get in order.
func FuzzFormat(f *testing.F) {
	files, err := filepath.Glob("testdata/*.bt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, c := range formatCases() {
		f.Add([]byte(c.in))
	}
	for seed := range 200 {
		g := &gen{r: rand.New(rand.NewPCG(uint64(seed), 2)), room: 30}
		g.script()
		f.Add([]byte(g.b.String()))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := Parse("fuzz", src, nil)
		checkLocations(t, file, len(src))
		if err != nil {
			if ErrorText(err) == "" {
				t.Error("an error without text")
			}
			return
		}
		once := Format(file)
		again, err := Parse("fuzz", once, nil)
		if err != nil {
			t.Fatalf("formatted\n%s\nit is refused:\n%s", once, ErrorText(err))
		}
		if !Equal(file, again) {
			t.Fatalf("formatted it is another tree:\n%s", once)
		}
		if twice := Format(again); !bytes.Equal(once, twice) {
			t.Fatalf("formatted once:\n%s\nand twice:\n%s", once, twice)
		}
		if Expand(file, nil) == nil {
			SetParams(file, []string{"1", "x"})
			checkLocations(t, file, -1)
		}
	})
}

// checkLocations reports nodes that are outside of their source; size is that of the only
// source, or -1.
func checkLocations(t *testing.T, f *File, size int) {
	t.Helper()
	for n := range All(f) {
		l := n.At()
		if l.In == nil || l.Start < 0 || l.Start > l.End || int(l.End) > len(l.In.Content) {
			t.Errorf("%T is at %d to %d", n, l.Start, l.End)
		}
		if size >= 0 && l.In != nil && len(l.In.Content) > size {
			t.Errorf("%T has another source", n)
		}
	}
}
