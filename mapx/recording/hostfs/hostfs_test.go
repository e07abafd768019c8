package hostfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const released = "../testdata/recording-1"

// TestTree: what was read is there again, and what was not isn't.
func TestTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	rec, err := recording.Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	host, err := Record(rec, "host", fstest.MapFS{
		"proc/sys/x":            {Data: []byte("1\n")},
		"sys/devices/a:b/event": {Data: []byte("e")},
		"sys/unread":            {Data: []byte("e")},
		"sys/link":              {Data: []byte("devices/a:b"), Mode: fs.ModeSymlink},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"proc/sys/x", "sys/devices/a:b/event"} {
		if _, err := fs.ReadFile(host, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fs.ReadLink(host, "sys/link"); err != nil {
		t.Fatal(err)
	}
	liveDir, err := fs.ReadDir(host, "sys")
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	checkHost(t, r, liveDir)
}

func checkHost(t *testing.T, r *recording.Recording, liveDir []fs.DirEntry) {
	t.Helper()
	host, err := Open(r, "host")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"proc/sys/x": "1\n", "sys/devices/a:b/event": "e", "sys/link/event": "e",
	} {
		if b, err := fs.ReadFile(host, name); err != nil || string(b) != want {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
	if _, err := fs.ReadFile(host, "sys/unread"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what nobody read:", err)
	}
	if link, err := fs.ReadLink(host, "sys/link"); err != nil || link != "devices/a:b" {
		t.Error(link, err)
	}
	entries, err := fs.ReadDir(host, "sys")
	if err != nil || len(entries) != len(liveDir) {
		t.Fatal(entries, err)
	}
	for i := range entries {
		if entries[i].Name() != liveDir[i].Name() || entries[i].Type() != liveDir[i].Type() {
			t.Error(entries[i], liveDir[i])
		}
	}
}

// TestReleased: the tree of a recording of the first format.
func TestReleased(t *testing.T) {
	r, err := recording.Open(os.DirFS(released))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	host, err := Open(r, "host")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := fs.ReadFile(host, "proc/version"); err != nil || string(b) != "Linux\n" {
		t.Error(string(b), err)
	}
}

// FuzzTree: a tree of files from any bytes has only valid paths, and every file
// in it can be read.
func FuzzTree(f *testing.F) {
	b, err := os.ReadFile(released + "/host.tree.file")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := recording.Open(fstest.MapFS{
			"manifest":       {Data: []byte("borescope recording 1\n{}")},
			"host.tree.file": {Data: b},
		})
		if err != nil {
			t.Fatal(err)
		}
		tree, err := Open(r, "host")
		if err != nil {
			return
		}
		for name, n := range tree.(memFS) {
			if !fs.ValidPath(name) {
				t.Fatalf("path %q", name)
			}
			if n.dir || n.link != "" {
				continue
			}
			got, err := fs.ReadFile(tree, name)
			if err == nil && !bytes.Equal(got, n.data) {
				t.Fatalf("%s: %q", name, got)
			}
		}
	})
}
