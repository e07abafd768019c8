package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"type": func() {
		var script strings.Builder
		for i := range 23 {
			fmt.Fprintf(&script, ": line %d of 23\n", i+1)
		}
		bash := testenv.Command(nil, "/bin/bash", "--norc", "-i")
		bash.Stdin = strings.NewReader(script.String())
		bash.Run()
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "bashreadline", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/lines") }

// A shell that is given 23 lines is 23 rows; the end of its input is none.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Tool("/bin/bash"))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.OwnFiles(t, testenv.Bash...)
	child := tooltest.Start(t, "type")
	out := tooltest.Live(t, run, []string{"-json"}, child.Work)
	n := 0
	for _, r := range tooltest.Objects[struct {
		PID     int
		Command string
	}](t, out) {
		if r.Command == fmt.Sprintf(": line %d of 23", n+1) {
			n++
		}
	}
	if n != 23 {
		t.Errorf("%d lines of 23:\n%s", n, out)
	}
}
