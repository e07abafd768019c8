package main

import (
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "filetop", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/files") }

func TestFirst(t *testing.T) {
	files := group(map[file]int64{
		{Inode: 1, Sum: 0}: 9, {Inode: 1, Sum: 1}: 100,
		{Inode: 2, Sum: 2}: 3, {Inode: 2, Sum: 3}: 5000,
		{Inode: 3, Sum: 0}: 1, {Inode: 3, Sum: 1}: 900,
	})
	for order, want := range map[string][2]uint64{"all": {2, 3}, "reads": {1, 3}, "writes": {2, 1}, "rbytes": {3, 1}, "wbytes": {2, 1}} {
		got := first(files, 2, orders[order])
		if len(got) != 2 || got[0].Inode != want[0] || got[1].Inode != want[1] {
			t.Errorf("by %s: %+v", order, got)
		}
	}
	if got := first(files, 9, orders["all"]); len(got) != 3 {
		t.Errorf("%d files", len(got))
	}
}
