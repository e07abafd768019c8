package main

import (
	"os"
	"strconv"
	"strings"
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

// A child's thread sleeps for 23 ms at least, in nanosleep, and runs for 20 ms at least.
//
// A switch that the kernel left out, as it does where another process was switched away
// from in the middle of a call for a map, gives its time to the state before; none is
// lost. What a hypervisor takes from a CPU that is about to switch to a thread the kernel
// counts as the thread's running, and the tracepoint comes after it: that is waiting here.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "work")
	before := stolen(t)
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID)}, child.Work)
	taken := int64(0)
	if after := stolen(t); after > 0 {
		taken = 10 * (after - before + 1) // the count is cut off to ticks of 10 ms
	}
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
		ran := r.OnCPU+min(r.RunQ, float64(taken)) >= 20
		exact := ran && r.Sleep >= 22 && (r.In == "nanosleep" || r.In == "read")
		whole := r.OnCPU+r.RunQ+r.Sleep >= 42
		if !whole || !exact && tooltest.LeftOut(t, out) == 0 {
			t.Errorf("%+v, %d ms may have been stolen:\n%s", r, taken, out)
		}
		return
	}
	t.Errorf("no row of the thread:\n%s", out)
}

// stolen is the time that a hypervisor took from all CPUs, in ticks (proc_stat(5)).
func stolen(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b))
	if len(f) < 9 || f[0] != "cpu" {
		t.Fatalf("/proc/stat: %.100q", b)
	}
	n, err := strconv.ParseInt(f[8], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
