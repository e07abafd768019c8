package main

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/borescope/borescope/internal/compatbuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// calls32 are 23 getpriority of a 32-bit program, which the kernel refuses, 7 getpid and 5
// openat.
var calls32 = compatbuild.Framed(
	compatbuild.Call{Name: "getpriority", Args: []any{9, 0}, Times: 23},
	compatbuild.Call{Name: "getpid", Times: 7},
	compatbuild.Call{Name: "openat", Args: []any{-100, "/nowhere/32", 0, 0}, Times: 5},
)

// TestLive32: the calls of 32-bit programs have their own names. They were named as the
// 64-bit calls of the same numbers: writev for getpid, preadv for openat.
func TestLive32(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, compatbuild.Runs)
	images := [][]byte{compatbuild.Program(runtime.GOARCH, calls32...)}
	if runtime.GOARCH == "amd64" { // int 0x80 of a 64-bit program
		images = append(images, compatbuild.Program64(calls32...))
	}
	for _, image := range images {
		child := tooltest.StartProgram(t, compatbuild.Write(t, image))
		out := tooltest.Live(t, run, []string{"-json", "-L", "-T", "100", "-p", strconv.Itoa(child.PID)},
			child.Work)
		got := map[string]int{}
		for _, r := range tooltest.Objects[row](t, out) {
			got[r.Syscall] = r.Count
		}
		for name, want := range map[string]int{"getpriority": 23, "getpid": 7, "openat": 5} {
			if got[name] != want {
				t.Errorf("%s: %d of %d:\n%s", name, got[name], want, out)
			}
			delete(got, name)
		}
		// Its last write may not have returned when the run ends: who it wakes comes first.
		delete(got, "write")
		if delete(got, "read"); len(got) > 0 {
			t.Errorf("calls that it did not make: %v", got)
		}
	}
}

// TestLive32Failed: failures and single calls of 32-bit programs are chosen by their own
// errors and numbers.
func TestLive32Failed(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, compatbuild.Runs)
	for _, test := range []struct {
		args []string
		want row
	}{
		{[]string{"-e", "EINVAL"}, row{Syscall: "getpriority", Count: 23}},
		{[]string{"-x", "--syscall", "openat"}, row{Syscall: "openat", Count: 5}},
		{[]string{"--syscall", "getpid"}, row{Syscall: "getpid", Count: 7}},
	} {
		image := compatbuild.Program(runtime.GOARCH, calls32...)
		child := tooltest.StartProgram(t, compatbuild.Write(t, image))
		args := append([]string{"-json", "-p", strconv.Itoa(child.PID)}, test.args...)
		out := tooltest.Live(t, run, args, child.Work)
		rows := tooltest.Objects[row](t, out)
		if len(rows) != 1 || rows[0].Syscall != test.want.Syscall || rows[0].Count != test.want.Count {
			t.Errorf("%v: want %+v:\n%s", test.args, test.want, out)
		}
	}
}

// TestLiveExec: an exec is counted as such, whatever makes it and whatever it executes. On
// arm64 it returns with the number of one ABI in the other, where that is another call:
// fcntl64, listxattr.
func TestLiveExec(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, compatbuild.Runs)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	end := compatbuild.Framed()[1:]
	t.Setenv(execEnv, compatbuild.Write(t, compatbuild.Program(runtime.GOARCH, end...)))
	into64 := compatbuild.Program(runtime.GOARCH, compatbuild.Framed(compatbuild.Call{
		Name: "execve", Args: []any{exe, []string{exe}, []string{afterEnv + "=1"}},
	})...)
	for name, child := range map[string]*tooltest.Child{
		"64 to 32": tooltest.Start(t, "exec"),
		"32 to 64": tooltest.StartProgram(t, compatbuild.Write(t, into64)),
	} {
		out := tooltest.Live(t, run, []string{"-json", "-T", "100", "-p", strconv.Itoa(child.PID)},
			child.Work)
		got := map[string]int{}
		for _, r := range tooltest.Objects[row](t, out) {
			got[r.Syscall] = r.Count
		}
		if got["execve"] != 1 || got["fcntl64"]+got["listxattr"] > 0 {
			t.Errorf("%s: not one execve:\n%s", name, out)
		}
	}
}
