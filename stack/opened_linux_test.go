package stack

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/stranger"
)

// hasCFI returns the names of modules with tables.
func hasCFI(m *Modules) (names []string) {
	for _, mod := range m.All() {
		if mod.CFI != nil {
			names = append(names, mod.Name)
		}
	}
	return names
}

// TestModulesOpenOnce: a file that processes share is not opened again for each of them, and a
// process that may open no more has what is known already. Each process had all of its files
// opened, however many it mapped.
func TestModulesOpenOnce(t *testing.T) {
	var c CFICache
	first, err := c.Modules(os.Getpid())
	if err != nil {
		t.Log(err)
	}
	if len(hasCFI(first)) == 0 {
		t.Fatal("no tables")
	}
	for c.startFile(os.Getpid()) {
	}
	again, err2 := c.Modules(os.Getpid())
	// Some kernels' vdso has no table.
	if fmt.Sprint(err2) != fmt.Sprint(err) || !slices.Equal(hasCFI(again), hasCFI(first)) {
		t.Errorf("%q, %v; want %q, %v", hasCFI(again), err2, hasCFI(first), err)
	}
	for key, o := range c.latest {
		o.at = o.at.Add(-2 * openedFor)
		c.latest[key] = o
	}
	c.opened = stranger.Share{}
	c.opened.Add(stranger.Owner{}, stranger.Party{}, 2*filesLimit.Base)
	if late, err := c.Modules(os.Getpid()); err == nil || len(hasCFI(late)) > 1 { // the vdso
		t.Errorf("what is to be opened again, without a budget: %q, %v", hasCFI(late), err)
	}
}

// TestRecentIsOfOneFile: a file that has the number of one that is gone is not taken for it. It
// had its rules for a second.
func TestRecentIsOfOneFile(t *testing.T) {
	var c CFICache
	key := fileKey{dev: 1, inode: 2}
	c.put(key, FileCFI{})
	c.openedNow(key, "/gone")
	if _, ok := c.recent(&procfs.Mapping{Dev: 1, Inode: 2, Path: "/gone"}); !ok {
		t.Error("the file is not known")
	}
	if _, ok := c.recent(&procfs.Mapping{Dev: 1, Inode: 2, Path: "/new"}); ok {
		t.Error("another file is taken for it")
	}
}

// TestLatestIsBounded: of files that were opened, no more is kept than of those with tables.
func TestLatestIsBounded(t *testing.T) {
	var c CFICache
	for i := range uint64(1000) {
		c.openedNow(fileKey{dev: 1, inode: i}, "/x")
		for key, o := range c.latest {
			o.at = time.Now().Add(-time.Hour)
			c.latest[key] = o
		}
	}
	if n := len(c.latest); n > 2 {
		t.Errorf("%d are kept", n)
	}
}

// TestMaxMappings: none of the files of a process with too many mappings is read.
func TestMaxMappings(t *testing.T) {
	c := CFICache{MaxMappings: 1}
	mods, err := c.Modules(os.Getpid())
	if err == nil || len(mods.All()) < 2 || len(hasCFI(mods)) != 0 || len(c.tables) != 0 {
		t.Errorf("%v: %d modules, tables of %q", err, len(mods.All()), hasCFI(mods))
	}
	c.MaxMappings = len(mods.All())
	if mods, err = c.Modules(os.Getpid()); len(hasCFI(mods)) == 0 {
		t.Errorf("%v: no tables", err)
	}
}
