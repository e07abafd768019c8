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

// reads counts the requests in what the tool printed of those whose disk is named so.
func reads(t *testing.T, out, disk string) (n int) {
	t.Helper()
	for _, h := range tooltest.Objects[struct {
		Disk    string
		Buckets []struct{ Count int }
	}](t, out) {
		for _, b := range h.Buckets {
			if strings.HasPrefix(h.Disk, disk) {
				n += b.Count
			}
		}
	}
	return n
}

// A child's 23 reads of a disk, past the cache, are counted, and perhaps what
// others read meanwhile.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.File(tooltest.Disk))
	child := tooltest.Start(t, "read")
	out := tooltest.Live(t, run, []string{"-json", "-D", "-F"}, child.Work)
	if n := reads(t, out, "vda flags = R"); n < 23 {
		t.Errorf("%d reads of 23:\n%s", n, out)
	}
}

// They are without the disk's name, too, when requests are known by their address.
func TestLiveByAddress(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.File(tooltest.Disk))
	for _, args := range [][]string{{"-json"}, {"-json", "-Q"}} {
		child := tooltest.Start(t, "read")
		out := tooltest.Live(t, run, args, child.Work)
		if n := reads(t, out, ""); n < 23 {
			t.Errorf("%v: %d reads of 23:\n%s", args, n, out)
		}
	}
}
