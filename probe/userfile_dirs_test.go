package probe

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// hugeDirs is a tree of which every directory has the same very many entries, and
// counts how many were read.
type hugeDirs struct {
	fstest.MapFS
	entries, read int
}

func (h *hugeDirs) Open(name string) (fs.File, error) {
	if st, err := h.Stat(name); err != nil || !st.IsDir() {
		return h.MapFS.Open(name)
	}
	return &hugeDir{h: h}, nil
}

type hugeDir struct {
	fs.File
	h  *hugeDirs
	at int
}

func (*hugeDir) Close() error { return nil }

func (d *hugeDir) ReadDir(n int) (out []fs.DirEntry, err error) {
	for len(out) < n && d.at < d.h.entries {
		out = append(out, fs.FileInfoToDirEntry(hugeEntry{name: fmt.Sprintf("entry%d", d.at)}))
		d.at++
	}
	d.h.read += len(out)
	if len(out) == 0 {
		return nil, io.EOF
	}
	return out, nil
}

type hugeEntry struct {
	fs.FileInfo
	name string
}

func (e hugeEntry) Name() string      { return e.name }
func (e hugeEntry) Mode() fs.FileMode { return 0o644 }

// Directories of a process's root, and any that a path names, may have any number of
// entries. They were read whole.
func TestHugeDirectories(t *testing.T) {
	for target, want := range map[string]string{
		"uprobe:/d/*:f":             "/d: more than 65536 entries",
		"uprobe:/d/*/x:f":           "/d: more than 65536 entries",
		"uprobe:nothing:f":          "/usr/lib: more than 65536 entries",
		"uprobe:/d/nothing:f":       "no file /d/nothing",
		"uprobe:/proc/7/root/d/*:f": "/proc/7/root/d: more than 65536 entries",
	} {
		root := &hugeDirs{entries: 10_000_000, MapFS: fstest.MapFS{"d/x/y": {}, "usr/lib/x": {}, "proc/7/root/d/x": {}}}
		env := NewEnv(&EnvOptions{Root: root, Arch: "amd64", Release: "6.12.0-test", Features: probetest.Features()})
		var err error
		mem, _ := meter.Spent(func() { _, err = Resolve(env, []Target{mustParse(t, target)}, nil) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
		if most := userfile.MaxEntries + 1024; root.read > 2*most || mem > 64<<20 && !meter.Raced() {
			t.Errorf("%s: %d entries read, %d bytes of memory", target, root.read, mem)
		}
	}
	// What has as many as are allowed is listed, by name.
	root := &hugeDirs{entries: userfile.MaxEntries, MapFS: fstest.MapFS{"d/x": {}}}
	list, err := (&userfile.Dirs{FS: root, Left: userfile.MaxEntries}).ReadDir("d")
	if err != nil || len(list) != userfile.MaxEntries || list[0].Name() != "entry0" || list[2].Name() != "entry10" {
		t.Errorf("%d entries, %v", len(list), err)
	}
}
