// Vfsstat counts the most common calls of the virtual file system, once a second.
//
//	# vfsstat -replay testdata/calls
//	Counting VFS calls... Hit Ctrl-C to end.
//	TIME         READ/s  WRITE/s  FSYNC/s   OPEN/s CREATE/s
//	16:01:31         32       47       16       16        0
//
// See README.md.
package main

import (
	"context"
	"os"
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("vfsstat", run)) }

// calls are the functions that are counted, in the order of the columns.
var calls = []string{"vfs_read", "vfs_write", "vfs_fsync_range", "vfs_open", "vfs_create"}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("vfsstat", "Count reads, writes, fsyncs, opens and creates of files of all kinds.",
		"vfsstat 2 5", "every two seconds, five times",
		"vfsstat -p 185", "those of process 185")
	pid := t.PID()
	t.Interval(time.Second)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	counts := action.NewCounter[uint32]("counts", len(calls))
	p := action.NewProgram("vfsstat")
	for i, name := range calls {
		p.On(probe.Fentry{Symbol: name}, func(c *action.Ctx) {
			tool.FilterPID(c, *pid)
			counts.Inc(c, i)
		})
	}

	return t.Run(ctx, stdout, "Counting VFS calls", func(r *tool.Run) error {
		tab := r.Table("TIME %-10s", "SECONDS %8.3f", "READ/s %8.0f", "WRITE/s %8.0f", "FSYNC/s %8.0f",
			"OPEN/s %8.0f", "CREATE/s %8.0f")
		tab.Show("SECONDS", t.JSON()).Header()
		return tool.EachCounts(r, counts, func(entries []mapx.Entry[uint32, uint64]) error {
			n := mapx.Values(mapx.Snapshot[uint32, uint64]{Entries: entries})
			secs := r.Elapsed().Seconds()
			rate := func(i uint32) float64 { return float64(n[i]) / secs }
			return tab.Row(r.Now().Format("15:04:05"), secs, rate(0), rate(1), rate(2), rate(3), rate(4))
		})
	}, p)
}
