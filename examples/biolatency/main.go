// Biolatency shows how long disk I/O takes, as a histogram.
//
//	# biolatency
//	Tracing block device I/O... Hit Ctrl-C to end.
//
//	     usecs               : count     distribution
//	         0 -> 1          : 0        |                                        |
//	         2 -> 3          : 0        |                                        |
//	         4 -> 7          : 0        |                                        |
//	         8 -> 15         : 0        |                                        |
//	        16 -> 31         : 0        |                                        |
//	        32 -> 63         : 0        |                                        |
//	        64 -> 127        : 1        |******                                  |
//	       128 -> 255        : 2        |*************                           |
//	       256 -> 511        : 2        |*************                           |
//	       512 -> 1023       : 3        |********************                    |
//	      1024 -> 2047       : 6        |****************************************|
//	      2048 -> 4095       : 4        |**************************              |
//
// See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("biolatency", run)) }

// request tells I/O requests apart while they are under way.
type request struct {
	Sector uint64
	Dev    uint32
}

// kind is what a histogram is of: a disk (-D), flags (-F), both or all.
type kind struct {
	Dev   uint32
	Flags [8]byte
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("biolatency", "Measure how long block device I/O takes, as a histogram.",
		"biolatency -D 1 10", "for each disk, every second, ten times",
		"biolatency -mTQ 5", "in ms, with the time in the queue, every 5 s")
	queued := t.Bool("Q,queued", "with the time in the operating system's queue")
	millis := t.Bool("m,milliseconds", "in milliseconds instead of microseconds")
	times := t.Bool("T,timestamp", "with the time of day")
	disks := t.Bool("D,disks", "a histogram for each disk")
	flags := t.Bool("F,flags", "a histogram for each kind: R, W, WS, ...")
	only := t.String("d,disk", "DISK", "only this disk")
	extended := t.Bool("e,extension", "with the average and the total")
	t.JSONFlag("j")
	t.Interval(0)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	unit, per := "usecs", int64(1000)
	if *millis {
		unit, per = "msecs", 1_000_000
	}

	starts := action.NewLRU[request, uint64]("starts", 0)
	lats := action.NewHistBy[kind]("lats", 0)
	sums := action.NewSum[kind]("sums", 0)
	p := action.NewProgram("biolatency")
	key := func(c *action.Ctx) action.Tuple { return action.Key(c.Field("sector"), c.Field("dev")) }
	if *queued {
		p.On(tool.Tracepoints("block", "block_rq_insert"), func(c *action.Ctx) { starts.Set(c, key(c), c.Nsecs()) })
	}
	p.On(tool.Tracepoints("block", "block_rq_issue"), func(c *action.Ctx) {
		if *queued { // requests without a queue are only issued
			// Not Create, which takes an entry of the map's before it looks.
			c.If(starts.Has(c, key(c)).Not(), func() { starts.Set(c, key(c), c.Nsecs()) })
			return
		}
		starts.Set(c, key(c), c.Nsecs())
	})
	p.On(tool.Tracepoints("block", "block_rq_complete"), func(c *action.Ctx) {
		starts.Take(c, key(c), func(t0 action.Int) {
			of := []any{0, ""}
			if *disks || *only != "" {
				of[0] = c.Field("dev")
			}
			if *flags {
				of[1] = c.FieldStr("rwbs", 8)
			}
			took := c.Let(c.Nsecs().Sub(t0).Div(per))
			lats.Observe(c, took, of...)
			if *extended {
				sums.Observe(c, took, of...)
			}
		})
	})

	return t.Run(ctx, stdout, "Tracing block device I/O", func(s *tool.Session) error {
		readHists, err := tool.Hists(s, lats)
		if err != nil {
			return err
		}
		readSums := func() (map[kind]int64, error) { return nil, nil }
		if *extended {
			if readSums, err = tool.Sums(s, sums); err != nil {
				return err
			}
		}
		return s.Every(func() error {
			hists, err := readHists()
			total, err2 := readSums()
			s.Printf("\n")
			if *times {
				s.Clock()
			}
			for _, h := range hists {
				disk, how := s.Disk(h.Key.Dev), action.Text(h.Key.Flags[:])
				switch {
				case *only != "" && disk != *only:
					continue
				case *disks && *flags:
					s.Hist(h.Value, unit, "disk", fmt.Sprintf("%s flags = %s", disk, how))
				case *disks:
					s.Hist(h.Value, unit, "disk", disk)
				case *flags:
					s.Hist(h.Value, unit, "flags", how)
				default:
					s.Hist(h.Value, unit, "", nil)
				}
				if *extended {
					a := average{total[h.Key] / int64(h.Value.Count()), total[h.Key], h.Value.Count(), unit}
					s.Printf("\navg = %d %s, total: %d %s, count: %d\n", a.Avg, unit, a.Total, unit, a.Count)
					s.JSON(a)
				}
			}
			return errors.Join(err, err2)
		})
	}, p)
}

// average is what -e adds with -json.
type average struct {
	Avg   int64  `json:"avg"`
	Total int64  `json:"total"`
	Count uint64 `json:"count"`
	Unit  string `json:"unit"`
}
