package main

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"read": func() { tooltest.ReadDisk(23) }})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "biolatency", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/reads", "-T") }

// A child's 23 reads of a disk, past the cache, are counted, and perhaps what
// others read meanwhile.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.File(tooltest.Disk))
	child := tooltest.Start(t, "read")
	out := tooltest.Live(t, run, []string{"-json", "-D", "-F"}, child.Work)
	n := 0
	for _, h := range tooltest.Objects[struct {
		Disk    string
		Buckets []struct{ Count int }
	}](t, out) {
		for _, b := range h.Buckets {
			if strings.HasPrefix(h.Disk, "vda flags = R") {
				n += b.Count
			}
		}
	}
	if n < 23 {
		t.Errorf("%d reads of 23:\n%s", n, out)
	}
}
