package main

import (
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

const host = "localhost" // which needs no network

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"look up": func() {
		for range 23 {
			testenv.Command(nil, "getent", "ahostsv4", host).Run()
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "gethostlatency", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/lookups") }

// 23 processes that look up a name are 23 rows, each of another process, and each
// took some time.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Tool("getent"))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.OwnFiles(t, testenv.Libc...)
	child := tooltest.Start(t, "look up")
	out := tooltest.Live(t, run, []string{"-json"}, child.Work)
	pids := map[int]bool{}
	for _, r := range tooltest.Objects[struct {
		PID        int
		Comm, Host string
		LATms      float64
	}](t, out) {
		if r.Comm == "getent" && r.Host == host && r.LATms > 0 {
			pids[r.PID] = true
		}
	}
	if len(pids) != 23 {
		t.Errorf("%d lookups of 23:\n%s", len(pids), out)
	}
}
