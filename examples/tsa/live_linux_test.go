package main

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

// The work is 23 sleeps of a millisecond, then 20 ms of computing.
func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"work": func() {
		for range 23 {
			syscall.Nanosleep(&syscall.Timespec{Nsec: 1e6}, nil)
		}
		cpu := func() time.Duration {
			var ts unix.Timespec
			unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
			return time.Duration(ts.Nano())
		}
		for end := cpu() + 20*time.Millisecond; cpu() < end; {
		}
	}})
}

// A child's thread sleeps for 23 ms at least, in nanosleep, and runs for 20 ms at
// least. A switch that the kernel left out, as it does where another process was
// switched away from in the middle of a call for a map, gives its time to the state
// before; none is lost.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "work")
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID)}, child.Work)
	for _, r := range tooltest.Objects[struct {
		TID   int
		OnCPU float64 `json:"oncpu_ms"`
		RunQ  float64 `json:"runq_ms"`
		Sleep float64 `json:"sleep_ms"`
		In    string
	}](t, out) {
		if r.TID != child.PID {
			continue
		}
		exact := r.OnCPU >= 20 && r.Sleep >= 22 && (r.In == "nanosleep" || r.In == "read")
		whole := r.OnCPU+r.RunQ+r.Sleep >= 42
		if !whole || !exact && tooltest.LeftOut(t, out) == 0 {
			t.Errorf("%+v:\n%s", r, out)
		}
		return
	}
	t.Errorf("no row of the thread:\n%s", out)
}
