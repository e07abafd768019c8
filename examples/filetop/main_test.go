package main

import (
	"testing"

	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "filetop", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/files") }

func TestOrders(t *testing.T) {
	rows := tool.Rows(map[file]int64{
		{Inode: 1, Sum: reads}: 9, {Inode: 1, Sum: rbytes}: 100,
		{Inode: 2, Sum: writes}: 3, {Inode: 2, Sum: wbytes}: 5000,
		{Inode: 3, Sum: reads}: 1, {Inode: 3, Sum: rbytes}: 900,
	}, sumsOfFile, func(f *file) *uint32 { return &f.Sum })
	for order, want := range map[string][2]uint64{"all": {2, 3}, "reads": {1, 3}, "writes": {2, 1}, "rbytes": {3, 1}, "wbytes": {2, 1}} {
		got := tool.Largest(rows, orders[order])
		if len(got) != 3 || got[0].Inode != want[0] || got[1].Inode != want[1] {
			t.Errorf("by %s: %+v", order, got)
		}
	}
}
