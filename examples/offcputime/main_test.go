package main

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"sleep": func() {
		for range 23 {
			syscall.Nanosleep(&syscall.Timespec{Nsec: 1e6}, nil)
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "offcputime", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/sleeps", "-d") }

// The same recording, folded.
func TestFolded(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-replay", "testdata/sleeps", "-f"}, &out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "offcputime.test;") && strings.Contains(line, "main.main.TestMain.func1;") &&
			strings.Contains(line, ";do_nanosleep;") {
			return
		}
	}
	t.Errorf("no folded line from main.TestMain.func1 to do_nanosleep:\n%s", out.String())
}

// A child's thread that sleeps 23 times for a millisecond has waited 23 times
// with these stacks, and for 23 ms or more.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "sleep")
	pid := strconv.Itoa(child.PID)
	out := tooltest.Live(t, run, []string{"-json", "--state", "1", "-p", pid, "-t", pid}, child.Work)
	n, usecs := uint64(0), int64(0)
	for _, w := range tooltest.Objects[waited](t, out) {
		if slices.Contains(w.Kernel, "do_nanosleep") && slices.Contains(w.User, "main.main.TestMain.func1") {
			n += w.Waits
			usecs += w.Usecs
		}
	}
	if n != 23 || usecs < 23_000 {
		t.Errorf("%d waits of 23, %d us of 23,000:\n%s", n, usecs, out)
	}
}
