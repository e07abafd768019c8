package main

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/compatbuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// TestLive32: the tracepoints of single system calls do not fire for 32-bit programs, which
// the run tells, with the number of their calls. It was silent.
func TestLive32(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, compatbuild.Runs)
	image := compatbuild.Program(runtime.GOARCH, compatbuild.Framed(
		compatbuild.Call{Name: "mkdirat", Args: []any{-100, "/nowhere/32", 0}, Times: 23},
		compatbuild.Call{Name: "openat", Args: []any{-100, "/nowhere/32", 0}, Times: 5},
	)...)
	for probe, want := range map[string]string{
		"t:syscalls:sys_enter_mkdirat": "Lost: 23 calls of 32-bit processes (they have no tracepoints)\n",
		"t:syscalls:sys_exit_*at":      "Lost: 28 calls of 32-bit processes (they have no tracepoints)\n",
	} {
		child := tooltest.StartProgram(t, compatbuild.Write(t, image))
		args := []string{"-p", strconv.Itoa(child.PID), probe}
		out := tooltest.Live(t, run, args, child.Work)
		if !strings.Contains(out, want) || strings.Contains(out, "mkdirat") {
			t.Errorf("%s: want %q:\n%s", probe, want, out)
		}
	}

	// What selects them instead: the task's flag, in the language of expressions.
	call := map[string]struct{ filter, id string }{
		"amd64": {"curtask->thread_info.status & 2", "296"},
		"arm64": {"curtask->thread_info.flags & 0x400000", "323"},
	}[runtime.GOARCH]
	child := tooltest.StartProgram(t, compatbuild.Write(t, image))
	probe := "t:raw_syscalls:sys_enter /" + call.filter + `/ "call %d", args.id`
	out := tooltest.Live(t, run, []string{"-p", strconv.Itoa(child.PID), probe}, child.Work)
	if n := strings.Count(out, " call "+call.id+"\n"); n != 23 {
		t.Errorf("%d calls of 23:\n%s", n, out)
	}
}
