// Package golden compares the results of tests with files that were reviewed before.
package golden

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files instead of comparing")

// Compare fails the test if got differs from the contents of the file, and shows the first
// difference. With -update it writes the file.
func Compare[T string | []byte](t testing.TB, path string, got T) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if line, g, w := part(string(got), string(want)); line > 0 {
		t.Errorf("%s:%d: got\n%.500s\nwant\n%.500s\nlook at it, then run with -update", path, line, g, w)
	}
}

// part returns the first line in which two texts differ, from 1, and that line of each. line
// is 0 if they are equal.
func part(got, want string) (line int, g, w string) {
	if got == want {
		return 0, "", ""
	}
	for line = 1; ; line++ {
		var moreGot, moreWant bool
		g, got, moreGot = strings.Cut(got, "\n")
		w, want, moreWant = strings.Cut(want, "\n")
		if g != w || moreGot != moreWant {
			return line, g, w
		}
	}
}
