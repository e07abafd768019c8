package testenv

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// OwnFiles replaces the files that match the patterns by copies, for this test and for
// programs that it starts from now on. So a breakpoint in a copy affects no other process of
// the machine, as one in libc or in a shell would. The test must run in OwnMounts. It is
// skipped if no pattern matches.
func OwnFiles(t testing.TB, patterns ...string) {
	t.Helper()
	dir := t.TempDir()
	n := 0
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if path, err = filepath.EvalSymlinks(path); err != nil {
				t.Fatal(err)
			}
			if inside(path, dir) {
				continue // already replaced, by another name
			}
			n++
			own := filepath.Join(dir, strconv.Itoa(n))
			copyFile(t, own, path)
			if err := unix.Mount(own, path, "", unix.MS_BIND, ""); err != nil {
				t.Fatalf("put a copy in place of %s: %v", path, err)
			}
		}
	}
	if n == 0 {
		Need(t, Got(patterns[0], fs.ErrNotExist))
	}
}

// inside reports whether the file is one of those in dir.
func inside(path, dir string) bool {
	st, err := os.Stat(path)
	copies, _ := filepath.Glob(dir + "/*")
	for _, c := range copies {
		if other, oerr := os.Stat(c); err == nil && oerr == nil && os.SameFile(st, other) {
			return true
		}
	}
	return false
}

func copyFile(t testing.TB, to, from string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, st.Mode().Perm())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
