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
	"fmt"
	"io"
	"os"

	"github.com/borescope/borescope/hist"
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
	queued := t.Bool("Q", "with the time in the operating system's queue")
	millis := t.Bool("m", "in milliseconds instead of microseconds")
	times := t.Bool("T", "with the time of day")
	disks := t.Bool("D", "a histogram for each disk")
	flags := t.Bool("F", "a histogram for each kind: R, W, WS, ...")
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
	p := action.NewProgram("biolatency")
	key := func(c *action.Ctx) action.Tuple { return action.Key(c.Field("sector"), c.Field("dev")) }
	if *queued {
		p.On(tool.Tracepoints("block", "block_rq_insert"), func(c *action.Ctx) { starts.Set(c, key(c), c.Nsecs()) })
	}
	p.On(tool.Tracepoints("block", "block_rq_issue"), func(c *action.Ctx) {
		if *queued { // requests without a queue are only issued
			starts.Create(c, key(c), c.Nsecs())
			return
		}
		starts.Set(c, key(c), c.Nsecs())
	})
	p.On(tool.Tracepoints("block", "block_rq_complete"), func(c *action.Ctx) {
		starts.Take(c, key(c), func(t0 action.Int) {
			of := []any{0, ""}
			if *disks {
				of[0] = c.Field("dev")
			}
			if *flags {
				of[1] = c.FieldStr("rwbs", 8)
			}
			lats.Observe(c, c.Nsecs().Sub(t0).Div(per), of...)
		})
	})

	return t.Run(ctx, stdout, "Tracing block device I/O", func(s *tool.Session) error {
		return tool.EachHist(s, lats, *times, func(key kind, d *hist.Log2) {
			disk, how := s.Disk(key.Dev), action.Text(key.Flags[:])
			switch {
			case *disks && *flags:
				s.Hist(d, unit, "disk", fmt.Sprintf("%s flags = %s", disk, how))
			case *disks:
				s.Hist(d, unit, "disk", disk)
			case *flags:
				s.Hist(d, unit, "flags", how)
			default:
				s.Hist(d, unit, "", nil)
			}
		})
	}, p)
}
