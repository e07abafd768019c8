// Llcstat shows how often processes use the last level cache, and how often they
// find there what they look for.
//
//	# llcstat -e page-faults,minor-faults -c 1
//	Counting cache references and misses... Hit Ctrl-C to end.
//	PID      NAME             CPU     REFERENCE         MISS    HIT%
//	162      llcstat.test     0            2303         2303    0.00
//	Total References: 2318 Total Misses: 2318 Hit Rate: 0.00%
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("llcstat", run)) }

// where is who used the cache, and on which CPU.
type where struct {
	PID, TID, CPU uint32
	Comm          action.Comm
	Missed        uint32 // 0 or 1
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("llcstat", "Count references and misses of the last level cache, by process and CPU.",
		"llcstat -d 10", "for ten seconds",
		"llcstat -e branches,branch-misses -d 10", "how well branches are predicted")
	period := t.Int("c", "N", 10000, "count by so many, which is what an interrupt costs")
	threads := t.Bool("t", "by thread")
	events := []pmc.Event{pmc.CacheReferences(), pmc.CacheMisses()}
	t.Func("e", "EVENTS", "another pair of events, separated by a comma, in perf's spelling", func(list string) error {
		refs, misses, ok := strings.Cut(list, ",")
		if !ok {
			return errors.New("not two events")
		}
		var err, err2 error
		events[0], err = pmc.ParseEvent(refs, nil)
		events[1], err2 = pmc.ParseEvent(misses, nil)
		return errors.Join(err, err2)
	})
	t.Duration()
	t.Interval(0)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	if *period == 0 {
		return t.Usagef("-c 0 counts nothing")
	}

	counts := action.NewCounter[where]("counts", 1<<14)
	p := action.NewProgram("llcstat")
	p.IncludeSelf = true // an overflow hits whoever runs
	for missed, e := range events {
		p.On(probe.Perf{Event: e, Period: uint64(*period)}, func(c *action.Ctx) {
			tid := c.TID()
			if !*threads {
				tid = c.PID()
			}
			counts.Inc(c, c.PID(), tid, c.CPU(), c.Comm(), missed)
		})
	}

	return t.Run(ctx, stdout, "Counting cache references and misses", func(s *tool.Session) error {
		read, err := tool.Counts(s, counts)
		if err != nil {
			return err
		}
		tab := s.Table("PID %-8d", "TID %-8d", "NAME %-16s", "CPU %-4d", "REFERENCE %12d", "MISS %12d", "HIT% %7.2f")
		tab.Show("TID", *threads)
		return s.Every(func() error {
			entries, err := read()
			refs, misses := map[where]uint64{}, map[where]uint64{}
			var all, missed uint64
			for _, e := range entries {
				n := e.Value * uint64(*period)
				if e.Key.Missed == 0 {
					refs[e.Key] = n
					all += n
					continue
				}
				e.Key.Missed = 0
				misses[e.Key] = n
				missed += n
			}
			tab.Header()
			for _, k := range slices.SortedFunc(maps.Keys(refs), func(a, b where) int {
				return cmp.Or(cmp.Compare(refs[b], refs[a]), cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.CPU, b.CPU))
			}) {
				tab.Row(k.PID, k.TID, k.Comm, k.CPU, refs[k], misses[k], hits(refs[k], misses[k]))
			}
			s.Printf("Total References: %d Total Misses: %d Hit Rate: %.2f%%\n", all, missed, hits(all, missed))
			return err
		})
	}, p)
}

// hits is the part of the references, in percent, that were no misses.
func hits(refs, misses uint64) float64 {
	if refs == 0 {
		return 0
	}
	return 100 * float64(refs-min(refs, misses)) / float64(refs)
}
