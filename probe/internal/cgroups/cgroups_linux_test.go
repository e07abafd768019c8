package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/probe/env"
)

// TestFind: in a tree that is mounted where version 2 may be, by any spelling of a path.
func TestFind(t *testing.T) {
	root := t.TempDir()
	e := env.New(&env.Options{Root: os.DirFS(root), Arch: "amd64", Release: "6.12.0"})
	if _, err := Find(e, "/a"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("nothing is mounted: %v", err)
	}
	mount := filepath.Join(root, "sys/fs/cgroup")
	if err := os.MkdirAll(filepath.Join(mount, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mount, "cgroup.procs"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want, err := IDOf(e, "sys/fs/cgroup/a/b")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/a/b", "a/b/", "/a/../a/b", "/../a/b", "/sys/fs/cgroup/a/b"} {
		g, err := Find(e, name)
		if err != nil || g != (Group{ID: want.Inode, Level: -1, Path: "/a/b"}) {
			t.Errorf("%s: %+v, %v, want inode %d", name, g, err, want.Inode)
		}
	}
	if _, err := Find(e, "/a/c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such group: %v", err)
	}
	// With version 1 beside it, the files of tasks tell.
	if err := os.WriteFile(filepath.Join(mount, "tasks"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(e, "/a/b"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("version 1: %v", err)
	}
}
