package testenv_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// TestMounts: what tests get of file systems is there, and nothing of it stays.
func TestMounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Tracefs)
	before := mounts(t)
	t.Run("while", func(t *testing.T) {
		if _, err := os.Stat(testenv.TracefsDir(t) + "/events/sched"); err != nil {
			t.Error(err)
		}
		dir := testenv.BPFFSDir(t)
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil || st.Type != unix.BPF_FS_MAGIC {
			t.Errorf("%s is of type %#x, %v", dir, st.Type, err)
		}
		if now := mounts(t); now != before {
			t.Errorf("mounted for all:\n%s\nbefore:\n%s", now, before)
		}
	})
	if after := mounts(t); after != before {
		t.Errorf("mounts before:\n%s\nafter:\n%s", before, after)
	}
}

// TestOwnMounts: what is mounted and unmounted there stays there.
func TestOwnMounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Tracefs)
	before := mounts(t)
	if testenv.OwnMounts(t) {
		testenv.MountTracefs(t)
		if now := mounts(t); !strings.Contains(now, " /sys/kernel/tracing tracefs ") {
			t.Errorf("not mounted:\n%s", now)
		}
		testenv.UnmountAll(t, "tracefs")
		if now := mounts(t); strings.Contains(now, " tracefs ") {
			t.Errorf("not unmounted:\n%s", now)
		}
		return
	}
	if after := mounts(t); after != before {
		t.Errorf("mounts before:\n%s\nafter:\n%s", before, after)
	}
}

// TestUnmountNested checks that a debugfs is unmounted with the tracefs in it, which the
// kernel mounts on access.
func TestUnmountNested(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Tracefs)
	if !testenv.OwnMounts(t) {
		return
	}
	dir := t.TempDir()
	testenv.Need(t, testenv.Got("debugfs", unix.Mount("debugfs", dir, "debugfs", 0, ""), "no such device"))
	if _, err := os.Stat(dir + "/tracing/events/sched"); err != nil {
		t.Fatal(err)
	}
	if now := mounts(t); !strings.Contains(now, " "+dir+"/tracing tracefs ") {
		t.Fatalf("nothing is mounted on %s:\n%s", dir, now)
	}
	if err := testenv.Unmount("tracefs", "debugfs"); err != nil {
		t.Error(err)
	}
	if now := mounts(t); strings.Contains(now, " tracefs ") || strings.Contains(now, " debugfs ") {
		t.Errorf("not unmounted:\n%s", now)
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

// TestOwnFiles: what a program that the test starts maps is another file than
// everybody else's, by the same name; and nothing of it is seen outside.
func TestOwnFiles(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.File("/bin/sh"))
	before := mounts(t)
	outside, err := os.Stat("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if testenv.OwnMounts(t) {
		testenv.OwnFiles(t, "/bin/sh", "/bin/../bin/sh")
		inside, err := os.Stat("/bin/sh")
		if err != nil || os.SameFile(inside, outside) || inside.Size() != outside.Size() {
			t.Errorf("%+v, %v; want a copy of %+v", inside, err, outside)
		}
		out, err := testenv.Command(t, "/bin/sh", "-c", "echo run").Output()
		if err != nil || string(out) != "run\n" {
			t.Errorf("%q, %v", out, err)
		}
		return
	}
	if after := mounts(t); after != before {
		t.Errorf("mounts before:\n%s\nafter:\n%s", before, after)
	}
}
