package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"open": func() {
		for range 23 {
			os.Open("/nowhere/to/be/found")
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "opensnoop", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/opens", "-TU") }

// A child's 23 opens of a file that does not exist are 23 rows with its pid and
// ENOENT; with -x -n they are all there is.
func TestLive(t *testing.T) {
	type row struct {
		PID, FD, Err int
		Path         string
	}
	child := tooltest.Start(t, "open")
	out := tooltest.Live(t, run, []string{"-json", "-x", "-p", strconv.Itoa(child.PID)}, child.Work)
	want := row{child.PID, -1, 2, "/nowhere/to/be/found"}
	n := 0
	for _, r := range tooltest.Objects[row](t, out) {
		if r == want {
			n++
		}
	}
	if n != 23 {
		t.Errorf("%d opens of 23:\n%s", n, out)
	}
}
