// Numamove counts the pages that the kernel moves to the NUMA node on which they are used,
// and measures the time that the moves take, once a second.
//
//	# numamove
//	Counting moves of pages by NUMA balancing... Hit Ctrl-C to end.
//	TIME          NUMA_migrations NUMA_migrations_ms
//	20:08:05                   28                 82
//
// See README.md.
package main

import (
	"context"
	"os"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("numamove", run)) }

// The keys of the sums.
const (
	moves uint32 = iota
	nsecs
)

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("numamove", "Count moves of pages by NUMA balancing, and the time that they take.",
		"numamove", "every second",
		"numamove 10 6", "every ten seconds for a minute")
	t.Interval(time.Second)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	starts := action.NewLRU[uint32, uint64]("starts", 0)
	sums := action.NewSum[uint32]("sums", 16)
	begin := func(c *action.Ctx) { starts.Set(c, c.TID(), c.Nsecs()) }
	end := func(c *action.Ctx) {
		starts.Take(c, c.TID(), func(t0 action.Int) {
			sums.Observe(c, 1, moves)
			sums.Observe(c, c.Nsecs().Sub(t0), nsecs)
		})
	}
	function, tracepoints := action.NewProgram("numamove"), action.NewProgram("numamove")
	function.IncludeSelf, tracepoints.IncludeSelf = true, true
	// It is migrate_misplaced_page before Linux 6.7.
	name := t.Symbol("migrate_misplaced_folio", "migrate_misplaced_page")
	function.On(probe.Fentry{Symbol: name}, begin)
	function.On(probe.Fexit{Symbol: name}, end)

	for i, name := range []string{"mm_migrate_pages_start", "mm_migrate_pages"} {
		tracepoints.On(probe.Tracepoint{Group: "migrate", Name: name}, func(c *action.Ctx) {
			c.ReturnUnless(c.Field("reason").Eq(c.Enum("enum migrate_reason.MR_NUMA_MISPLACED")))
			[]func(*action.Ctx){begin, end}[i](c)
		})
	}

	return t.Run(ctx, stdout, "Counting moves of pages by NUMA balancing",
		func(r *tool.Run) error {
			tab := r.Table("TIME %-10s", "NUMA_migrations %18d", "NUMA_migrations_ms %18d")
			tab.Header()
			return tool.EachSums(r, sums, func(n map[uint32]int64) error {
				return tab.Row(r.Now().Format("15:04:05"), n[moves], n[nsecs]/int64(time.Millisecond))
			})
		}, function, tracepoints)
}
