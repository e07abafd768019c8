package main

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "wakeuptime", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/sleeps") }

// The same recording, folded.
func TestFolded(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-replay", "testdata/sleeps", "-f"}, tool.NewOutput(&out)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), ";hrtimer_wakeup;") || !strings.Contains(out.String(), ";sleeper23 ") {
		t.Errorf("no folded line with hrtimer_wakeup and sleeper23:\n%s", out.String())
	}
}
