package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

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
// for that long or more, but for what it was kept on or from a CPU between the start
// of a timer and the wait, and for waits of which the kernel left the beginning or the end
// out.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "sleep")
	pid := strconv.Itoa(child.PID)
	before := kept(t, pid)
	out := tooltest.Live(t, run, []string{"-json", "--state", "1", "-p", pid, "-t", pid}, child.Work)
	n, usecs := uint64(0), int64(0)
	for _, w := range tooltest.Objects[waited](t, out) {
		if slices.Contains(w.Kernel, "do_nanosleep") && slices.Contains(w.User, "main.main.TestMain.func1") {
			n += w.Waits
			usecs += w.Usecs
		}
	}
	other := kept(t, pid) - before
	seen := int64(n)
	if left := tooltest.LeftOut(t, out); n > 23 || n+left < 23 || usecs+other.Microseconds() < seen*naps*1000 {
		t.Errorf("%d waits of 23, %d us (and %v not waiting) of %d:\n%s", n, usecs, other, 23*naps*1000, out)
	}
}

// kept is how long a process's first thread has run or waited for a CPU
// (Documentation/scheduler/sched-stats.rst).
func kept(t *testing.T, pid string) time.Duration {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/schedstat")
	var ran, waited time.Duration
	if err == nil {
		_, err = fmt.Sscan(string(b), &ran, &waited)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ran + waited
}
