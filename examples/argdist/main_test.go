package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"mkdir": func() {
		for i := range 46 {
			os.Mkdir("/nowhere/to/be/found", os.FileMode(64*(i%2)))
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "argdist", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/mkdirs") }

func TestMistakes(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"-C", "vfs_read"},
		{"-H", "vfs_read comm"},
		{"-H", "vfs_read arg0, arg1"},
		{"-C", "vfs_read /arg0 1"},
		{"-C", "vfs_read comm, comm, comm"},
		{"-C", "vfs_read count"},
	} {
		var errs testWriter
		if s := cli.Status("argdist", run(t.Context(), args, tool.NewOutput(os.Stdout)), &errs); s != 2 {
			t.Errorf("%q: status %d, %s", args, s, errs)
		}
	}
}

type testWriter []byte

func (w *testWriter) Write(b []byte) (int, error) { *w = append(*w, b...); return len(b), nil }

// A child's 46 calls have two modes, each 23 times; in the histogram, too.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "mkdir")
	out := tooltest.Live(t, run, []string{
		"-json", "-p", strconv.Itoa(child.PID),
		"-C", `t:syscalls:sys_enter_mkdirat /args.dfd != 7/ args.mode, str(args.pathname)`,
		"-H", "t:syscalls:sys_enter_mkdirat args.mode",
	}, child.Work)
	counts, buckets := 0, 0
	for _, r := range tooltest.Objects[struct {
		Count   int
		Event   string
		Buckets []struct{ Lo, Count int }
	}](t, out) {
		switch r.Event {
		case `args.mode = 0, str(args.pathname) = "/nowhere/to/be/found"`, `args.mode = 64, str(args.pathname) = "/nowhere/to/be/found"`:
			counts += r.Count
		}
		for _, b := range r.Buckets {
			if (b.Lo == 0 || b.Lo == 64) && b.Count == 23 {
				buckets++
			}
		}
	}
	if counts != 46 || buckets != 2 {
		t.Errorf("%d of 46 counts, %d of 2 buckets:\n%s", counts, buckets, out)
	}
}

// mkdirat returns the kernel's function behind mkdir, whose arguments are a directory, a name and a mode.
func mkdirat() string { return tool.New("test", "").Symbol("do_mkdirat", "filename_mkdirat") }

// The return value and an argument of functions.
func TestLiveFunctions(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	child := tooltest.Start(t, "mkdir")
	out := tooltest.Live(t, run, []string{
		"-json", "-p", strconv.Itoa(child.PID), "-C", "kretprobe:" + mkdirat() + " (int32)retval", "-C", "kprobe:" + mkdirat() + " (uint32)arg2 * 2",
		"-C", "kretprobe:" + strings.TrimSuffix(mkdirat(), "at") + "a* 7, (int32)retval",
	}, child.Work)
	got := map[string]int{}
	for _, r := range tooltest.Objects[struct {
		Count int
		Event string
	}](t, out) {
		got[r.Event] = r.Count
	}
	if got["(int32)retval = -2"] != 46 || got["7 = 7, (int32)retval = -2"] != 46 || len(got) != 4 {
		t.Errorf("%v", got)
	}
}
