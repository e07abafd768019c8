package main

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "offcputime", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/sleeps", "-d") }

// The same recording, folded.
func TestFolded(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-replay", "testdata/sleeps", "-f"}, tool.NewOutput(&out)); err != nil {
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
