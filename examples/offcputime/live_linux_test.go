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
			syscall.Nanosleep(&syscall.Timespec{Nsec: naps * 1e6}, nil)
		}
	}})
}

// naps is how long the child sleeps each time, in milliseconds: longer than a busy
// host keeps a virtual CPU waiting between the start of the timer and the wait,
// which is none if the timer is up by then.
const naps = 50

// A child's thread that sleeps 23 times has waited 23 times with these stacks, and
// for that long or more.
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
	if n != 23 || usecs < 23*naps*1000 {
		t.Errorf("%d waits of 23, %d us of %d:\n%s", n, usecs, 23*naps*1000, out)
	}
}
