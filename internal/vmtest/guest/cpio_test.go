package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// TestArchive has cpio(1) unpack what we packed.
func TestArchive(t *testing.T) {
	testenv.Need(t, testenv.Tool("cpio"))
	src := t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "a"), []byte("odd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	a := newArchive(&b)
	a.file("/etc/x", 0o644, []byte("hello"))
	a.file("/empty", 0o600, nil)
	if err := addTree(a, "/tree/sub", src); err != nil {
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	dst := t.TempDir()
	cmd := testenv.Command(t, "cpio", "-id", "--quiet")
	cmd.Dir, cmd.Stdin = dst, &b
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cpio: %v: %s", err, out)
	}
	for name, want := range map[string]string{
		"etc/x": "hello", "empty": "", "tree/sub/a": "odd", "tree/sub/link": "odd",
	} {
		got, err := os.ReadFile(filepath.Join(dst, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if st, err := os.Stat(filepath.Join(dst, "tree/sub/a")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", st, err)
	}
}

func TestArchiveOfMissingFile(t *testing.T) {
	a := newArchive(&bytes.Buffer{})
	if err := addTree(a, "/x", filepath.Join(t.TempDir(), "no")); err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("%v", err)
	}
}
