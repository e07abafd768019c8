package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"sleep": func() {
		runtime.LockOSThread()
		for range 23 {
			time.Sleep(time.Millisecond)
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "runqlat", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/waits") }

// A Ctrl-C before anything is attached still gets the summary.
func TestInterrupted(t *testing.T) {
	out := tooltest.Interrupted(t, run, "-T")
	if !strings.Contains(out, time.Now().Format("15:")) {
		t.Errorf("no summary:\n%s", out)
	}
}

// A child that sleeps 23 times is woken 23 times at least, and waits for a CPU
// each time.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "sleep")
	out := tooltest.Live(t, run, []string{"-json", "-P", "-p", strconv.Itoa(child.PID)}, child.Work)
	for _, h := range tooltest.Objects[struct {
		PID     int
		Buckets []struct{ Count int }
	}](t, out) {
		n := 0
		for _, b := range h.Buckets {
			n += b.Count
		}
		if h.PID == child.PID && n >= 23 {
			return
		}
	}
	t.Errorf("the child %d did not wait 23 times:\n%s", child.PID, out)
}

// By namespace of processes, the child's waits are in that of its link in /proc.
func TestLiveNamespaces(t *testing.T) {
	child := tooltest.Start(t, "sleep")
	out := tooltest.Live(t, run, []string{"-json", "-pidnss", "-p", strconv.Itoa(child.PID)}, child.Work)
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range tooltest.Objects[struct{ PIDNS int }](t, out) {
		if ns != fmt.Sprintf("pid:[%d]", h.PIDNS) {
			t.Errorf("%d is not %s", h.PIDNS, ns)
		}
	}
	if out == "" {
		t.Error("no waits")
	}
}
