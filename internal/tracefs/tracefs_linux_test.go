package tracefs_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/tracefs"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestOwn: where it is mounted nowhere, a mount is opened that can be read and
// written, is in no table, and ends with Close.
func TestOwn(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Tracefs)
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.UnmountAll(t, "tracefs")
	testenv.UnmountAll(t, "debugfs")
	before := mounts(t)
	d, err := tracefs.Here()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(d.Path, "proc/self/fd/") {
		t.Errorf("found in %s", d.Path)
	}
	root := os.DirFS("/")
	if b, err := fs.ReadFile(root, d.Path+"/events/sched/sched_switch/id"); err != nil || len(b) == 0 {
		t.Errorf("id: %q, %v", b, err)
	}
	usual := d.Files(root)
	if b, err := fs.ReadFile(usual, "sys/kernel/tracing/events/sched/sched_switch/id"); err != nil || len(b) == 0 {
		t.Errorf("the id at the usual place: %q, %v", b, err)
	}
	if dir, err := tracefs.Find(usual, false); err != nil || dir.Path != "sys/kernel/tracing" {
		t.Errorf("at the usual place: %+v, %v", dir, err)
	}
	if _, err := fs.Stat(usual, "sys/kernel/tracing-not"); err == nil {
		t.Error("a name with the same beginning is there, too")
	}
	f, err := os.OpenFile("/"+d.Path+"/trace_marker", os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
	if after := mounts(t); after != before {
		t.Errorf("mounts before:\n%s\nafter:\n%s", before, after)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := fs.Stat(root, d.Path+"/events"); err == nil {
		t.Error("it is there after Close")
	}
}

func mounts(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
