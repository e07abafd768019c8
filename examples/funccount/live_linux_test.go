package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"calls": func() {
		for range 23 {
			syscall.Getpriority(0, 0)
			os.Mkdir("/nowhere/to/be/found", 0)
		}
		for range 7 {
			syscall.Getpgid(0)
			syscall.Faccessat(-1, "/nowhere", 0, 0)
		}
	}})
}

func TestInterrupted(t *testing.T) {
	if out := tooltest.Interrupted(t, run, "tracepoint:sched:sched_switch"); !strings.Contains(out, "FUNC") {
		t.Errorf("no summary:\n%s", out)
	}
}

// count runs the tool on a child's work, and returns the counts by name.
func count(t *testing.T, target string) map[string]int {
	t.Helper()
	child := tooltest.Start(t, "calls")
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID), target}, child.Work)
	got := map[string]int{}
	for _, r := range tooltest.Objects[struct {
		Func  string
		Count int
	}](t, out) {
		got[r.Func] = r.Count
	}
	return got
}

// A wildcard's matches are counted each by itself, exactly.
func TestLive(t *testing.T) {
	got := count(t, "tracepoint:syscalls:sys_enter_getp*")
	if got["syscalls:sys_enter_getpriority"] != 23 || got["syscalls:sys_enter_getpgid"] != 7 {
		t.Errorf("%v", got)
	}
}

func TestLiveKprobes(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	// A tenth of a second's waits and thousands of functions are not needed: these
	// are where mkdir and access begin, and no compiler has put them into others.
	got := count(t, "kprobe:do_mkdirat,kprobe:do_faccessat")
	if got["do_mkdirat"] != 23 || got["do_faccessat"] != 7 {
		t.Errorf("%v", got)
	}
}

// A user function, by name.
func TestLiveUprobe(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got := count(t, "uprobe:"+exe+":syscall.Getpgid")
	if len(got) != 1 || got[exe+":syscall.Getpgid"] != 7 {
		t.Errorf("%v", got)
	}
}
