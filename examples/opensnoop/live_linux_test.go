package main

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){
		"open": func() {
			for range 23 {
				os.Open("/nowhere/to/be/found")
			}
		},
		"open beside": func() {
			if err := os.Chdir("/proc/sys/kernel"); err != nil {
				panic(err)
			}
			for range 23 {
				os.Open("../none")
				os.OpenFile("none", os.O_WRONLY|os.O_APPEND, 0)
			}
		},
		"open beside no file": func() {
			for range 23 {
				for _, dir := range []int{-1, 1 << 10, 1 << 30} { // never, not now, above what there is room for
					unix.Openat(dir, "none", 0, 0)
				}
			}
		},
	})
}

// A child's 23 opens of a file that does not exist are 23 rows with its pid and
// ENOENT; with -x -n they are all there is.
func TestLive(t *testing.T) {
	type row struct {
		PID, FD, Err int
		Path         string
	}
	child := tooltest.Start(t, "open")
	out := tooltest.Live(t, run, []string{"-json", "-x", "-p", strconv.Itoa(child.PID)}, child.Work)
	want := row{child.PID, -1, 2, "/nowhere/to/be/found"}
	n := 0
	for _, r := range tooltest.Objects[row](t, out) {
		if r == want {
			n++
		}
	}
	if n != 23 {
		t.Errorf("%d opens of 23:\n%s", n, out)
	}
}

// Of relative paths -F shows where they begin, across mounts, and -f leaves those
// opens that have all of the flags.
func TestLiveFullPath(t *testing.T) {
	child := tooltest.Start(t, "open beside")
	out := tooltest.Live(t, run, []string{"-json", "-F", "-f", "O_WRONLY", "-f", "O_APPEND", "-p", strconv.Itoa(child.PID)}, child.Work)
	n := 0
	for _, r := range tooltest.Objects[struct{ Path string }](t, out) {
		if r.Path != "/proc/sys/kernel/none" {
			t.Errorf("%s", r.Path)
		}
		n++
	}
	if n != 23 {
		t.Errorf("%d opens of 23:\n%s", n, out)
	}
}

// With -F, too, a relative path is shown where its call failed because of the
// descriptor that it was to begin at.
func TestLiveFullPathOfNoFile(t *testing.T) {
	type row struct {
		FD, Err int
		Path    string
	}
	child := tooltest.Start(t, "open beside no file")
	out := tooltest.Live(t, run, []string{"-json", "-F", "-p", strconv.Itoa(child.PID)}, child.Work)
	n := 0
	for _, r := range tooltest.Objects[row](t, out) {
		if r == (row{-1, int(unix.EBADF), "none"}) {
			n++
		}
	}
	if n != 3*23 {
		t.Errorf("%d opens of %d:\n%s", n, 3*23, out)
	}
}
