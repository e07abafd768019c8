package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func says(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// TestWriteFile: -svg into a directory in which another user had made a link of that name
// overwrote the file that it led to.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name, other := filepath.Join(dir, "out.svg"), filepath.Join(dir, "other")
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	if err := os.WriteFile(other, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, name); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	if err := WriteFile(name, 0o644, says("new")); err != nil {
		t.Fatal(err)
	}
	if read(name) != "new" || read(other) != "other" {
		t.Errorf("%q, and %q behind the link", read(name), read(other))
	}
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || runtime.GOOS != "windows" && info.Mode().Perm()&^0o644 != 0 {
		t.Errorf("%v, %v", info, err)
	}
	failed := errors.New("no more")
	if err := WriteFile(name, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
		return errors.Join(err, failed)
	}); !errors.Is(err, failed) {
		t.Error(err)
	}
	if read(name) != "new" {
		t.Error("a failure changed the file")
	}
	if err := WriteFile(dir, 0o644, says("x")); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory: %v", err)
	}
	if err := WriteFile(filepath.Join(dir, "none", "x"), 0o644, says("x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if runtime.GOOS != "windows" {
		if err := WriteFile(os.DevNull, 0o644, says("x")); err != nil {
			t.Error(err)
		}
	}
	if es, err := os.ReadDir(dir); err != nil || len(es) != 2 {
		t.Errorf("left: %v, %v", es, err)
	}
}
