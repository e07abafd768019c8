package main

import (
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "llcstat", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/faults") }

func TestHits(t *testing.T) {
	for _, c := range [][3]float64{{0, 0, 0}, {0, 7, 0}, {200, 50, 75}, {10, 11, 0}} {
		if got := hits(int64(c[0]), int64(c[1])); got != c[2] {
			t.Errorf("%v of %v: %v", c[1], c[0], got)
		}
	}
}
