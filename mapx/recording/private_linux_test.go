package recording

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/borescope/borescope/mapx/internal/sourcetest"
)

// TestRecordingIsPrivate: recordings could be read by everybody, though they hold
// what root alone can see.
func TestRecordingIsPrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "rec")
	rec, err := Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := rec.Create("notes")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := sourcetest.ReadAll(t, rec.Stream("s", &sourcetest.List{Records: sampleRecords(3)})); err != io.EOF {
		t.Error(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files != 4 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestRecordingFollowsNoLink: whoever owned the directory could have root write
// its manifest over any file.
func TestRecordingFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim, rec := filepath.Join(dir, "victim"), filepath.Join(dir, "rec")
	if err := os.WriteFile(victim, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Create(rec, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manifest.new", "notes.file"} {
		if err := os.Symlink(victim, filepath.Join(rec, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Create("notes"); err == nil {
		t.Error("a file was made where a link is")
	}
	if err := r.Close(); err == nil {
		t.Error("the recording was closed in spite of all")
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "whole" {
		t.Errorf("the link's end was overwritten: %q, %v", b, err)
	}
}
