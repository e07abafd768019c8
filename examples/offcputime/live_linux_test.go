package main

import (
	"slices"
	"strconv"
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
