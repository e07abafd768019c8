// Cachestat prints the hits and misses of the page cache: how often the data that programs
// read is already in memory.
//
//	# cachestat -replay testdata/reads
//	Counting page cache accesses... Hit Ctrl-C to end.
//	    HITS   MISSES  DIRTIES HITRATIO(%) BUFFERS(MB)  CACHED(MB)
//	    1472        0        0      100.00           0          56
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

func main() { os.Exit(tool.Main("cachestat", run)) }

// The keys of the counts.
const (
	accessed uint32 = iota // a page was used, also by those that write it
	added                  // a page came into the cache
	dirtied                // a page was written to
	buffers                // a buffer was written to, which marked its page accessed
)

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("cachestat", "Count hits and misses of the page cache.",
		"cachestat", "every second",
		"cachestat -T 5 12", "every 5 seconds for a minute, with the time")
	times := t.Bool("T,timestamp", "with the time of day")
	t.Interval(time.Second)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	counts := action.NewCounter[uint32]("counts", 16)
	p := action.NewProgram("cachestat")
	// Functions are named after folios since Linux 5.16 to 5.18. The functions for pages that
	// remain call those for folios.
	for _, on := range []struct {
		what   uint32
		target probe.Target
	}{
		{accessed, probe.Fentry{Symbol: t.Symbol("folio_mark_accessed", "mark_page_accessed")}},
		{added, probe.Fentry{Symbol: t.Symbol("filemap_add_folio", "add_to_page_cache_lru")}},
		{buffers, probe.Fentry{Symbol: t.Symbol("mark_buffer_dirty")}},
		{dirtied, t.Tracepoint("writeback", "writeback_dirty_folio", "writeback_dirty_page")},
	} {
		p.On(on.target, func(c *action.Ctx) { counts.Inc(c, on.what) })
	}

	return t.Run(ctx, stdout, "Counting page cache accesses", func(r *tool.Run) error {
		tab := r.Table("TIME %-8s", "HITS %8d", "MISSES %8d", "DIRTIES %8d", "HITRATIO(%) %11.2f",
			"BUFFERS(MB) %11d", "CACHED(MB) %11d")
		tab.Show("TIME", *times).Header()
		return tool.EachCounts(r, counts, func(entries []mapx.Entry[uint32, uint64]) error {
			mem, err := r.Meminfo()
			if err != nil {
				return err
			}
			n := mapx.Values(mapx.Snapshot[uint32, uint64]{Entries: entries})
			hits, misses, ratio := rates(n)
			return tab.Row(r.Now().Format("15:04:05"), hits, misses, n[dirtied], ratio, mem["Buffers"]>>20,
				mem["Cached"]>>20)
		})
	}, p)
}

// rates computes hits and misses from the counts, as BCC does: pages that were accessed
// because they were written to are neither, and a page that was added in order to be written
// to is no miss.
func rates(n map[uint32]uint64) (hits, misses uint64, ratio float64) {
	total := n[accessed] - min(n[accessed], n[buffers])
	misses = n[added] - min(n[added], n[dirtied])
	misses = min(misses, total)
	hits = total - misses
	if total > 0 {
		ratio = 100 * float64(hits) / float64(total)
	}
	return hits, misses, ratio
}
