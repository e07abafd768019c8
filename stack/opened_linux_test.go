package stack

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/stranger"
	"github.com/borescope/borescope/internal/testenv"
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
	c.openedNow(key, "/gone", 5)
	if _, ok := c.recent(&procfs.Mapping{Dev: 1, Inode: 2, Path: "/gone"}, 5); !ok {
		t.Error("the file is not known")
	}
	if _, ok := c.recent(&procfs.Mapping{Dev: 1, Inode: 2, Path: "/new"}, 5); ok {
		t.Error("another file is taken for it")
	}
	if _, ok := c.recent(&procfs.Mapping{Dev: 1, Inode: 2, Path: "/gone"}, 6); ok {
		t.Error("a file of its path and number, changed later, is taken for it")
	}
}

// TestLatestIsBounded: of files that were opened, no more is kept than of those with tables.
func TestLatestIsBounded(t *testing.T) {
	var c CFICache
	for i := range uint64(1000) {
		c.openedNow(fileKey{dev: 1, inode: i}, "/x", 0)
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

// TestChangedFile: a file that is overwritten, with the size, the path, the number and the mtime of
// the one before, has rules of its own at once. It had those of the one before for a second, and
// forever if its mtime was set.
func TestChangedFile(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("gcc")) // root for map_files
	dir := t.TempDir()
	path := dir + "/lib.so"
	build := func(pushes int) []byte {
		src := dir + "/a.s"
		text := "f:\n.cfi_startproc\n" + strings.Repeat("nop\n.cfi_adjust_cfa_offset 8\n", pushes) +
			strings.Repeat("nop\n.cfi_remember_state\n", 2-pushes) + "ret\n.cfi_endproc\n"
		if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out := dir + "/out.so"
		if b, err := testenv.Command(t, "gcc", "-shared", "-nostdlib", "-o", out, src).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one, two := build(1), build(2)
	if len(one) != len(two) || bytes.Equal(one, two) {
		t.Fatalf("%d and %d bytes", len(one), len(two))
	}
	var c CFICache
	then := time.Now().Add(-time.Hour)
	table := func(content []byte) *CFITable {
		t.Helper()
		if err := os.WriteFile(path, content, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		mem, err := unix.Mmap(int(f.Fd()), 0, len(content), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(mem)
		mods, _ := c.Modules(os.Getpid())
		for _, m := range mods.All() {
			if m.Name == path {
				return m.CFI
			}
		}
		t.Fatal("it is not mapped")
		return nil
	}
	first := table(one)
	time.Sleep(20 * time.Millisecond) // before 6.13 a file's times are those of the last tick
	second := table(two)
	if first == nil || second == nil || first == second {
		t.Errorf("tables %p and %p", first, second)
	}
}

// TestSharedImage: processes have one vDSO, and one table for it.
func TestSharedImage(t *testing.T) {
	testenv.Need(t, testenv.Tool("cat"))
	cmd := testenv.Command(t, "cat")
	in := testenv.Echoing(t, cmd)
	defer func() { in.Close(); cmd.Wait() }()
	var c CFICache
	of := func(pid int) *CFITable {
		t.Helper()
		mods, err := c.Modules(pid)
		if mods == nil {
			t.Fatal(err)
		}
		for _, m := range mods.All() {
			if m.Name == "[vdso]" {
				return m.CFI
			}
		}
		t.Fatal("no vDSO")
		return nil
	}
	if own, other := of(os.Getpid()), of(cmd.Process.Pid); own != other || own == nil && runtime.GOARCH == "amd64" { // some kernels' vDSO has none elsewhere
		t.Errorf("tables %p and %p", own, other)
	}
}
