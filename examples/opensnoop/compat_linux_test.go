package main

import (
	"encoding/binary"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/compatbuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// how is the struct open_how of an open with O_APPEND.
func how() []byte {
	b := make([]byte, 24)
	binary.LittleEndian.PutUint64(b, unix.O_APPEND)
	return b
}

// calls32 are a 32-bit program's opens: of a file that is there, of none, and of one relative
// to a directory.
var calls32 = compatbuild.Framed(
	compatbuild.Call{Name: "open", Args: []any{"/proc/sys/kernel", 0, 0}, Save: true},
	compatbuild.Call{Name: "open", Args: []any{"/nowhere/open", unix.O_APPEND, 0}, Times: 23},
	compatbuild.Call{Name: "openat", Args: []any{compatbuild.Saved{}, "none", unix.O_APPEND, 0}, Times: 7},
	compatbuild.Call{Name: "openat2", Args: []any{-100, "/nowhere/openat2", how(), 24}, Times: 5},
)

type row32 struct {
	PID, FD, Err int
	Path         string
}

// TestLive32: the opens of 32-bit programs are seen, with their paths, flags and results. Only
// those of 64-bit programs were, silently.
func TestLive32(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, compatbuild.Runs)
	images := [][]byte{compatbuild.Program(runtime.GOARCH, calls32...)}
	if runtime.GOARCH == "amd64" { // int 0x80 of a 64-bit program
		images = append(images, compatbuild.Program64(calls32...))
	}
	for _, image := range images {
		child := tooltest.StartProgram(t, compatbuild.Write(t, image))
		out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID)}, child.Work)
		got := map[row32]int{}
		for _, r := range tooltest.Objects[row32](t, out) {
			r.FD = min(r.FD, 3) // its first, or a later one if this process was given some
			got[r]++
		}
		for r, want := range map[row32]int{
			{child.PID, 3, 0, "/proc/sys/kernel"}:  1,
			{child.PID, -1, 2, "/nowhere/open"}:    23,
			{child.PID, -1, 2, "none"}:             7,
			{child.PID, -1, 2, "/nowhere/openat2"}: 5,
		} {
			if got[r] != want {
				t.Errorf("%+v: %d of %d:\n%s", r, got[r], want, out)
			}
			delete(got, r)
		}
		if len(got) > 0 {
			t.Errorf("rows that it did not cause: %v", got)
		}
	}
}

// TestLive32FullPath: -F and -f, which depend on a call's arguments, too.
func TestLive32FullPath(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, compatbuild.Runs)
	child := tooltest.StartProgram(t,
		compatbuild.Write(t, compatbuild.Program(runtime.GOARCH, calls32...)))
	args := []string{"-json", "-F", "-f", "O_APPEND", "-x", "-p", strconv.Itoa(child.PID)}
	out := tooltest.Live(t, run, args, child.Work)
	got := map[string]int{}
	for _, r := range tooltest.Objects[row32](t, out) {
		got[r.Path]++
	}
	if got["/nowhere/open"] != 23 || got["/proc/sys/kernel/none"] != 7 ||
		got["/nowhere/openat2"] != 5 || len(got) != 3 {
		t.Errorf("%v:\n%s", got, out)
	}
}
