package userfile

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// TestLdCache compares with ldconfig -p.
func TestLdCache(t *testing.T) {
	testenv.Need(t, testenv.Tool("ldconfig"), testenv.File("/etc/ld.so.cache"))
	out, err := testenv.Command(t, "ldconfig", "-p").Output()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		t.Fatal(err)
	}
	flags, word := LdFlags["amd64"], "libc6,x86-64"
	if strings.Contains(string(out), "libc6,AArch64") {
		flags, word = LdFlags["arm64"], "libc6,AArch64"
	}
	var want, got []string
	for line := range strings.Lines(string(out)) {
		// "\tlibz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1"
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " (")
		kind, file, ok2 := strings.Cut(rest, ") => ")
		if ok && ok2 && kind == word {
			want = append(want, name+" "+file)
		}
	}
	for soname, path := range LdCache(b, flags) {
		got = append(got, string(soname)+" "+string(path))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d entries, ldconfig has %d", len(got), len(want))
	}
}

func FuzzLdCache(f *testing.F) {
	if b, err := os.ReadFile("/etc/ld.so.cache"); err == nil && len(b) < 1<<20 {
		f.Add(b[:min(len(b), 4096)])
	}
	f.Add([]byte("glibc-ld.so.cache1.1" + strings.Repeat("\x01", 60)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for soname, path := range LdCache(b, LdFlags["amd64"]) {
			if !bytes.Contains(b, soname) || !bytes.Contains(b, path) || len(soname) == 0 || len(path) == 0 {
				t.Fatalf("%q, %q is not in the file", soname, path)
			}
		}
	})
}
