// Llcstat prints the references to the last level cache, its misses and its hit rate, by
// process.
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
	"context"
	"errors"
	"os"
	"strings"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("llcstat", run)) }

// where is a user of the cache: a process or a thread, on a CPU.
type where struct {
	PID, TID, CPU uint32
	Comm          action.Comm
	Missed        uint32 // 0 or 1
}

// options holds the parsed command line.
type options struct {
	*tool.Tool
	period  *int
	threads *bool
	events  []pmc.Event // references and misses
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	p, counts := o.program()
	return o.Run(ctx, stdout, "Counting cache references and misses", func(r *tool.Run) error {
		return o.show(r, counts)
	}, p)
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("llcstat",
		"Count references and misses of the last level cache, by process and CPU.",
		"llcstat 20", "for twenty seconds",
		"llcstat -e branches,branch-misses 5", "how well branches are predicted")
	o := &options{
		Tool: t,
		period: t.Int("c,sample_period", "N", 10000,
			"sample one in N events; each sample costs an interrupt"),
		threads: t.Bool("t,tid", "by thread"),
		events:  []pmc.Event{pmc.CacheReferences(), pmc.CacheMisses()},
	}
	t.Func("e", "EVENTS", "another pair of events, as perf spells them", func(list string) error {
		refs, misses, ok := strings.Cut(list, ",")
		if !ok {
			return errors.New("not two events")
		}
		var err, err2 error
		o.events[0], err = pmc.ParseEvent(refs, nil)
		o.events[1], err2 = pmc.ParseEvent(misses, nil)
		return errors.Join(err, err2)
	})
	t.Operands("[duration]", 0, 1)
	err := t.Parse(args, stdout)
	if err == nil {
		err = t.EndAfter(append(t.Args(), "10")[0])
	}
	if err == nil && *o.period == 0 {
		err = t.Usagef("-c 0 counts nothing")
	}
	return o, err
}

// program counts the counters' overflows by user of the cache.
func (o *options) program() (*action.Program, *action.Counter[where]) {
	counts := action.NewCounter[where]("counts", 1<<14)
	p := action.NewProgram("llcstat")
	p.IncludeSelf = true // an overflow interrupts whichever thread runs
	for missed, e := range o.events {
		p.On(probe.Perf{Event: e, Period: uint64(*o.period)}, func(c *action.Ctx) {
			tid := c.TID()
			if !*o.threads {
				tid = c.PID()
			}
			counts.Inc(c, c.PID(), tid, c.CPU(), c.Comm(), missed)
		})
	}
	return p, counts
}

// show prints the table at the end.
func (o *options) show(r *tool.Run, counts *action.Counter[where]) error {
	tab := r.Table("PID %-8d", "TID %-8d", "NAME %-16s", "CPU %-4d", "REFERENCE %12d", "MISS %12d",
		"HIT% %7.2f")
	tab.Show("TID", *o.threads)
	return tool.EachCounts(r, counts, func(entries []mapx.Entry[where, uint64]) error {
		sums := map[where]int64{}
		for _, e := range entries {
			sums[e.Key] = int64(e.Value) * int64(*o.period)
		}
		rows := tool.Rows(sums, 2, func(k *where) *uint32 { return &k.Missed })
		var all, missed int64
		tab.Header()
		for _, k := range tool.Largest(rows, func(n []int64) int64 { return n[0] }) {
			n := rows[k]
			all, missed = all+n[0], missed+n[1]
			if n[0] > 0 {
				tab.Row(k.PID, k.TID, k.Comm, k.CPU, n[0], n[1], hits(n[0], n[1]))
			}
		}
		r.Printf("Total References: %d Total Misses: %d Hit Rate: %.2f%%\n", all, missed,
			hits(all, missed))
		return nil
	})
}

// hits returns the part of the references, in percent, that were no misses.
func hits(refs, misses int64) float64 {
	if refs == 0 {
		return 0
	}
	return 100 * float64(refs-min(refs, misses)) / float64(refs)
}
