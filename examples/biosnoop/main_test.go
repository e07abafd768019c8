package main

import (
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"read": func() { tooltest.ReadDisk(23) }})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "biosnoop", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/reads") }

// A child's 23 reads of a disk, past the cache, are 23 rows with their sectors.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.File(tooltest.Disk))
	type row struct {
		PID, Sector, Bytes int
		Disk, T            string
		Lat                float64 `json:"lat_ms"`
	}
	child := tooltest.Start(t, "read")
	out := tooltest.Live(t, run, []string{"-json", "-d", "vda"}, child.Work)
	n := 0
	for _, r := range tooltest.Objects[row](t, out) {
		if r.PID == child.PID && r.T == "R" && r.Bytes == 4096 && r.Sector == 8*n && r.Lat > 0 {
			n++
		}
	}
	if n != 23 {
		t.Errorf("%d reads of 23:\n%s", n, out)
	}
}

func TestDirection(t *testing.T) {
	for flags, want := range map[string]string{"R": "R", "WS": "W", "FWFS": "W", "FF": "F", "DS": "D", "": ""} {
		var b [12]byte
		copy(b[:], flags)
		if got := direction(b); got != want {
			t.Errorf("%s is %s", flags, got)
		}
	}
}
