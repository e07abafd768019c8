package main

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

//go:noinline
func nap() { time.Sleep(2 * time.Millisecond) }

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"nap": func() {
		for range 23 {
			nap()
		}
		for range 7 {
			os.Mkdir("/nowhere/to/be/found", 0)
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "funclatency", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/naps", "-T") }

func TestMistakes(t *testing.T) {
	for _, target := range []string{"vfs_read+4", "tracepoint:sched:sched_switch", "kprobe:"} {
		var errs testWriter
		if s := cli.Status("funclatency", run(t.Context(), []string{target}, tool.NewOutput(os.Stdout)), &errs); s != 2 {
			t.Errorf("%s: status %d, %s", target, s, errs)
		}
	}
}

type testWriter []byte

func (w *testWriter) Write(b []byte) (int, error) { *w = append(*w, b...); return len(b), nil }

// live counts the calls by function, those of at least the given time.
func live(t *testing.T, target string, atLeast int64) map[string]int {
	t.Helper()
	child := tooltest.Start(t, "nap")
	out := tooltest.Live(t, run, []string{"-json", "-F", "-p", strconv.Itoa(child.PID), target}, child.Work)
	got := map[string]int{}
	for _, h := range tooltest.Objects[struct {
		Function string
		Buckets  []struct {
			Hi    int64
			Count int
		}
	}](t, out) {
		for _, b := range h.Buckets {
			if b.Hi >= atLeast {
				got[h.Function] += b.Count
			}
		}
	}
	return got
}

// 23 calls of a user function, none shorter than its sleep.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	got := live(t, "uprobe:/proc/self/exe:*funclatency.nap", int64(2*time.Millisecond))
	if len(got) != 1 {
		t.Errorf("%v", got)
	}
	for name, n := range got {
		if n != 23 {
			t.Errorf("%d calls of %s, want 23", n, name)
		}
	}
}

func TestLiveKprobe(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	if got := live(t, "do_mkdirat", 1); got["do_mkdirat"] != 7 || len(got) != 1 {
		t.Errorf("%v", got)
	}
}
