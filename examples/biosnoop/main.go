// Biosnoop prints every disk I/O request with its process, disk, sector, size and latency.
//
//	# biosnoop -replay testdata/reads
//	Tracing block device I/O... Hit Ctrl-C to end.
//	TIME(s)     COMM           PID     DISK     T SECTOR     BYTES    QUE(ms)  LAT(ms)
//	0.000000    dd             17184   vda      R 58243072   4096       0.015    0.179
//	0.002284    dd             17184   vda      R 58243080   4096       0.007    0.068
//	0.006277    dd             17184   vda      R 58243088   4096       0.008    0.061
//
// See README.md.
package main

import (
	"context"
	"os"
	"strconv"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("biosnoop", run)) }

// request identifies an I/O request that is under way.
type request struct {
	Sector uint64
	Dev    uint32
}

// start is the state of a request when it is issued.
type start struct {
	Inserted, Issued uint64
	PID              uint32
	Bytes            uint32
	Comm             action.Comm
}

// done is a request that has completed.
type done struct {
	Start  start
	Nsecs  uint64
	Sector uint64
	Dev    uint32
	Flags  [12]byte
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("biosnoop",
		"Trace block device I/O: who reads and writes what, and how long it takes.",
		"biosnoop", "every request",
		"biosnoop -Q -d sda", "of sda, with the time in the queue")
	queued := t.Bool("Q,queue", "with the time in the operating system's queue")
	disk := t.String("d,disk", "DISK", "only this disk")
	pattern := t.Bool("P,pattern", "with the pattern: sequential (S) or random (R)")
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	starts := action.NewLRU[request, start]("starts", 0)
	events := action.NewEvents[done]("ios", 1<<20)
	p := action.NewProgram("biosnoop")
	p.IncludeSelf = true // requests complete in the context of whichever thread they interrupt
	key := func(c *action.Ctx) action.Tuple { return action.Key(c.Field("sector"), c.Field("dev")) }
	p.On(probe.Tracepoint{Group: "block", Name: "block_rq_insert"}, func(c *action.Ctx) {
		starts.Set(c, key(c), action.Key(c.Nsecs(), uint64(0), c.PID(), c.Field("bytes"), c.Comm()))
	})
	p.On(probe.Tracepoint{Group: "block", Name: "block_rq_issue"}, func(c *action.Ctx) {
		now := c.Nsecs()
		starts.Find(c, key(c), func(v action.Int) {
			starts.Set(c, key(c),
				action.Key(v.Elem("Inserted"), now, v.Elem("PID"), c.Field("bytes"), v.Elem("Comm")))
		}, func() { // it was not queued
			starts.Set(c, key(c), action.Key(now, now, c.PID(), c.Field("bytes"), c.Comm()))
		})
	})
	p.On(probe.Tracepoint{Group: "block", Name: "block_rq_complete"}, func(c *action.Ctx) {
		starts.Take(c, key(c), func(v action.Int) {
			events.Emit(c, func(e *done, b *action.Bind) {
				b.Set(&e.Start, v)
				b.Set(&e.Nsecs, c.Nsecs())
				b.Set(&e.Sector, c.Field("sector"))
				b.Set(&e.Dev, c.Field("dev"))
				b.Set(&e.Flags, c.Field("rwbs").Str(12))
			})
		})
	})

	return t.Run(ctx, stdout, "Tracing block device I/O", func(r *tool.Run) error {
		tab := r.Table("TIME(s) %-11.6f", "COMM %-14s", "PID %-7d", "DISK %-8s", "T %-1s", "P %-1s",
			"SECTOR %-10d", "BYTES %-7d", "QUE(ms) %8.3f", "LAT(ms) %8.3f")
		tab.Show("QUE(ms)", *queued).Show("P", *pattern).Header()
		ends := stream{}
		return tool.Each(r, events, func(e *done) error {
			at, name := r.Seconds(e.Nsecs), r.Disk(e.Dev)
			if *disk != "" && name != *disk {
				return nil
			}
			return tab.Row(at, e.Start.Comm, e.Start.PID, name, direction(e.Flags), ends.pattern(e),
				e.Sector, e.Start.Bytes,
				float64(e.Start.Issued-e.Start.Inserted)/1e6, float64(e.Nsecs-e.Start.Issued)/1e6)
		})
	}, p)
}

// stream maps a disk and a direction to the sector after the last request.
type stream map[[2]string]uint64

// pattern returns S if a request begins at the end of the one before it, R if it does not,
// and ? for the first.
func (s stream) pattern(e *done) string {
	of := [2]string{strconv.Itoa(int(e.Dev)), direction(e.Flags)}
	end, ok := s[of]
	s[of] = e.Sector + uint64(e.Start.Bytes)/512
	switch {
	case !ok:
		return "?"
	case e.Sector == end:
		return "S"
	}
	return "R"
}

// direction returns R, W, D (discard) or F (flush) from the flags that the kernel's
// blk_fill_rwbs writes. They begin with F for a flush before a write.
func direction(flags [12]byte) string {
	text := action.Text(flags[:])
	if len(text) > 1 && text[0] == 'F' {
		text = text[1:]
	}
	return text[:min(1, len(text))]
}
