// Biolatency prints the latency of disk I/O as a histogram.
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
	"os"

	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("biolatency", run)) }

// request identifies an I/O request that is under way: by its address in memory, or by its
// place on a disk.
type request struct {
	Place uint64
	Dev   uint32
}

// kind is the key of a histogram: a disk (-D), flags (-F), both, or neither for all requests.
type kind struct {
	Dev   uint32
	Flags [8]byte
}

// options holds the parsed command line.
type options struct {
	queued, times, disks, flags, extended bool

	only string
	unit string
	per  int64 // nanoseconds
}

// maps are the maps that the programs write, whichever of them the kernel runs.
type maps struct {
	starts *action.Hash[request, uint64]
	lats   *action.Hist[kind]
	sums   *action.Aggregate[kind]
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
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
	o := &options{*queued, *times, *disks, *flags, *extended, *only, "usecs", 1000}
	if *millis {
		o.unit, o.per = "msecs", 1_000_000
	}
	m := &maps{
		action.NewLRU[request, uint64]("starts", 0), action.NewHist[kind]("lats", 0),
		action.NewSum[kind]("sums", 0),
	}
	return t.Run(ctx, stdout, "Tracing block device I/O", func(r *tool.Run) error {
		return show(r, m, o)
	}, programs(m, o)...)
}

// show prints histograms every interval.
func show(r *tool.Run, m *maps, o *options) error {
	readHists, err := tool.Hists(r, m.lats)
	if err != nil {
		return err
	}
	readSums := func() (map[kind]int64, error) { return nil, nil }
	if o.extended {
		if readSums, err = tool.Sums(r, m.sums); err != nil {
			return err
		}
	}
	return r.Every(func() error {
		hists, err := readHists()
		total, err2 := readSums()
		r.Printf("\n")
		if o.times {
			r.Clock()
		}
		for _, h := range hists {
			disk, how := r.Disk(h.Key.Dev), action.Text(h.Key.Flags[:])
			switch {
			case o.only != "" && disk != o.only:
				continue
			case o.disks && o.flags:
				r.Hist(h.Value, o.unit, "disk", fmt.Sprintf("%s flags = %s", disk, how))
			case o.disks:
				r.Hist(h.Value, o.unit, "disk", disk)
			case o.flags:
				r.Hist(h.Value, o.unit, "flags", how)
			default:
				r.Hist(h.Value, o.unit, "", nil)
			}
			if o.extended {
				a := average{total[h.Key] / int64(h.Value.Count()), total[h.Key], h.Value.Count(), o.unit}
				r.Printf("\navg = %d %s, total: %d %s, count: %d\n", a.Avg, o.unit, a.Total, o.unit, a.Count)
				r.JSON(a)
			}
		}
		return errors.Join(err, err2)
	})
}

// average is the object that -e adds to -json's.
type average struct {
	Avg   int64  `json:"avg"`
	Total int64  `json:"total"`
	Count uint64 `json:"count"`
	Unit  string `json:"unit"`
}
