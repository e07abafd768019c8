package main

import (
	"os"
	"slices"
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
			os.Mkdir("/nowhere/to/be/found", os.FileMode(i%2))
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "trace", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/mkdirs", "-tC") }

func TestMessageMistakes(t *testing.T) {
	for _, probe := range []string{
		`vfs_read "%d"`, `vfs_read "x", arg0`, `vfs_read arg0`, `vfs_read "%y", arg0`, `vfs_read "%d", comm`,
		`vfs_read "%d" arg0`, `vfs_read /arg0`, `vfs_read "%s%s%s%s", comm, comm, comm, comm`,
	} {
		var errs strings.Builder
		if s := cli.Status("trace", run(t.Context(), []string{probe}, tool.NewOutput(os.Stdout)), &errs); s != 2 {
			t.Errorf("%s: status %d, %s", probe, s, errs.String())
		}
	}
}

// live runs the tool on a child's 46 calls, and counts the lines with that
// message.
func live(t *testing.T, message string, probes ...string) int {
	t.Helper()
	child := tooltest.Start(t, "mkdir")
	out := tooltest.Live(t, run, append([]string{"-p", strconv.Itoa(child.PID)}, probes...), child.Work)
	return strings.Count(out, " "+message+"\n")
}

// Of a child's 46 calls the 23 with mode 1 pass the filter.
func TestLive(t *testing.T) {
	n := live(t, "/nowhere/to/be/found 0x1 -2", `t:syscalls:sys_enter_mkdirat /args.mode == 1/ "%s %p %d", str(args.pathname), args.mode, 1-3`)
	if n != 23 {
		t.Errorf("%d lines of 23", n)
	}
}

// With -A they are one line with their number, and with -U each has the stack of
// its call.
func TestLiveStacks(t *testing.T) {
	const probe = `t:syscalls:sys_enter_mkdirat /args.mode == 1/ "mode %d", args.mode`
	child := tooltest.Start(t, "mkdir")
	out := tooltest.Live(t, run, []string{"-json", "-A", "-p", strconv.Itoa(child.PID), probe}, child.Work)
	rows := tooltest.Objects[struct {
		Count   int
		Message string
	}](t, out)
	if len(rows) != 1 || rows[0].Count != 23 || rows[0].Message != "mode 1" {
		t.Errorf("%s", out)
	}
	child = tooltest.Start(t, "mkdir")
	out = tooltest.Live(t, run, []string{"-json", "-Ua", "-p", strconv.Itoa(child.PID), probe}, child.Work)
	stacks := 0
	for _, r := range tooltest.Objects[struct{ User []string }](t, out) {
		if slices.ContainsFunc(r.User, func(f string) bool {
			return strings.HasSuffix(f, " syscall.Mkdir") || strings.HasSuffix(f, " os.Mkdir")
		}) {
			stacks++
		}
	}
	if stacks != 23 {
		t.Errorf("%d stacks of 23:\n%s", stacks, out)
	}
}

// mkdirat returns the kernel's function behind mkdir, whose arguments are a directory, a name and a mode.
func mkdirat() string { return tool.New("test", "").Symbol("do_mkdirat", "filename_mkdirat") }

// Each match of a pattern has its name.
func TestLivePattern(t *testing.T) {
	if n := live(t, "tracepoint:syscalls:sys_exit_mkdirat", `t:syscalls:sys_*_mkdirat "%s", probe`); n != 46 {
		t.Errorf("%d lines of 46", n)
	}
}

// Both kinds of probes of one run.
func TestLiveFunctions(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	if n := live(t, "mode 1 dfd -100", "kprobe:"+mkdirat()+` /arg2 == 1/ "mode %d dfd %d", arg2, (int32)arg0`, "t:syscalls:sys_exit_mkdirat"); n != 23 {
		t.Errorf("%d lines of 23", n)
	}
}
