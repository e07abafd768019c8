package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// The work exec executes the file that execEnv names. A test program with afterEnv ends the
// work of the program that has executed it.
const execEnv, afterEnv = "SYSCOUNT_EXEC", "SYSCOUNT_AFTER"

func TestMain(m *testing.M) {
	if os.Getenv(afterEnv) != "" {
		os.Stdout.Write([]byte{'\n'})
		os.Stdin.Read(make([]byte, 1))
		return
	}
	tooltest.Main(m, map[string]func(){
		"getpriority": func() {
			for range 23 {
				syscall.Getpriority(0, 0)
			}
			for range 7 { // ESRCH, which nothing else here gets
				syscall.Setpriority(syscall.PRIO_PROCESS, 1<<30-1, 0)
			}
		},
		"exec": func() { syscall.Exec(os.Getenv(execEnv), []string{"32"}, nil) },
	})
}

func TestInterrupted(t *testing.T) {
	if out := tooltest.Interrupted(t, run); !strings.Contains(out, "SYSCALL") {
		t.Errorf("no summary:\n%s", out)
	}
}

type row struct {
	Syscall string
	PID     int
	Count   int
	Time    float64 `json:"time_us"`
}

// A child's 23 and 7 calls are counted exactly, and took some time.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "getpriority")
	out := tooltest.Live(t, run, []string{"-json", "-L", "-T", "100", "-p", strconv.Itoa(child.PID)}, child.Work)
	got := map[string]row{}
	for _, r := range tooltest.Objects[row](t, out) {
		got[r.Syscall] = r
	}
	for name, want := range map[string]int{"getpriority": 23, "setpriority": 7} {
		if r := got[name]; r.Count != want || r.Time <= 0 {
			t.Errorf("%s: %d in %v us, want %d", name, r.Count, r.Time, want)
		}
	}
}

// By process, and only what failed with ESRCH.
func TestLiveErrors(t *testing.T) {
	child := tooltest.Start(t, "getpriority")
	out := tooltest.Live(t, run, []string{"-json", "-P", "-e", "ESRCH", "-p", strconv.Itoa(child.PID)}, child.Work)
	rows := tooltest.Objects[row](t, out)
	if len(rows) != 1 || rows[0].PID != child.PID || rows[0].Count != 7 {
		t.Errorf("%s", out)
	}
}

// Of a thread only one call is counted.
func TestLiveCall(t *testing.T) {
	child := tooltest.Start(t, "getpriority")
	out := tooltest.Live(t, run, []string{"-json", "-syscall", "getpriority", "-t", strconv.Itoa(child.PID), "-c", strconv.Itoa(os.Getpid())}, child.Work)
	rows := tooltest.Objects[row](t, out)
	if len(rows) != 1 || rows[0].Syscall != "getpriority" || rows[0].Count != 23 {
		t.Errorf("%s", out)
	}
}

func TestList(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-l"}, tool.NewOutput(&out)); err != nil || !strings.Contains(out.String(), "\ngetpriority\n") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
