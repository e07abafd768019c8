// Runqlat prints the time that runnable threads waited for a CPU, as a histogram.
//
//	# runqlat
//	Tracing run queue latency... Hit Ctrl-C to end.
//
//	     usecs               : count     distribution
//	         0 -> 1          : 1432     |********                                |
//	         2 -> 3          : 6644     |****************************************|
//	         4 -> 7          : 6354     |**************************************  |
//	         8 -> 15         : 5118     |******************************          |
//	        16 -> 31         : 2010     |************                            |
//	        32 -> 63         : 1774     |**********                              |
//	        64 -> 127        : 1927     |***********                             |
//	       128 -> 255        : 1834     |***********                             |
//	       256 -> 511        : 815      |****                                    |
//	       512 -> 1023       : 518      |***                                     |
//	      1024 -> 2047       : 559      |***                                     |
//	      2048 -> 4095       : 674      |****                                    |
//	      4096 -> 8191       : 403      |**                                      |
//	      8192 -> 16383      : 142      |                                        |
//	     16384 -> 32767      : 46       |                                        |
//	     32768 -> 65535      : 7        |                                        |
//	     65536 -> 131071     : 2        |                                        |
//
// See README.md.
package main

import (
	"context"
	"os"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("runqlat", run)) }

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid   *int
	times *bool
	unit  string
	per   int64 // nanoseconds
	label string
	key   func(task action.Ptr) action.Int // selects a task's histogram; nil for only one
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	waits := action.NewHist[uint32]("waits", 0)
	return o.Run(ctx, stdout, "Tracing run queue latency", func(r *tool.Run) error {
		return tool.EachHist(r, waits, *o.times, func(key uint32, d *hist.Log2) {
			r.Hist(d, o.unit, o.label, key)
		})
	}, o.program(waits, "__state"), o.program(waits, "state"))
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("runqlat",
		"Measure how long threads that could run waited for a CPU, as a histogram.",
		"runqlat 1 10", "a histogram every second, ten times",
		"runqlat -P", "a histogram for each process, on Ctrl-C")
	o := &options{Tool: t, pid: t.PID(), unit: "usecs", per: 1000}
	o.times = t.Bool("T,timestamp", "with the time of day")
	millis := t.Bool("m,milliseconds", "in milliseconds instead of microseconds")
	byPID := t.Bool("P,pids", "a histogram for each process")
	byTID := t.Bool("L,tids", "a histogram for each thread")
	byNS := t.Bool("pidnss", "a histogram for each PID namespace")
	t.Interval(0)
	// With BTF, programs read fields of tasks with loads instead of calls of helpers.
	t.Options.Resolve = &probe.Options{PreferBTF: true}
	err := t.Parse(args, stdout)
	if *millis {
		o.unit, o.per = "msecs", 1_000_000
	}
	switch {
	case *byTID:
		o.label, o.key = "tid", action.Ptr.TaskTID
	case *byPID:
		o.label, o.key = "pid", action.Ptr.TaskPID
	case *byNS:
		o.label, o.key = "pidns", func(task action.Ptr) action.Int {
			return task.Member("nsproxy->pid_ns_for_children->ns.inum")
		}
	}
	return o, err
}

// program measures the time from when a thread becomes runnable, because it is woken or
// because it is switched out while running, until it runs. state is the name of task_struct's
// field, __state since Linux 5.14.
func (o *options) program(waits *action.Hist[uint32], state string) *action.Program {
	starts := action.NewHash[uint32, uint64]("starts", 0)
	p := action.NewProgram("runqlat")
	p.IncludeSelf = true // any thread may wake another one, or run before it
	ready := func(c *action.Ctx, task action.Ptr) {
		tid := task.Member("pid") // in the initial namespace, where it is unique
		mine := tid.Ne(0)         // the idle thread waits for nothing
		if *o.pid != 0 {
			mine = task.TaskPID().Eq(*o.pid)
		}
		c.If(mine, func() { starts.Set(c, tid, c.Nsecs()) })
	}
	for _, name := range []string{"sched_wakeup", "sched_wakeup_new"} {
		p.On(probe.RawTracepoint{Name: name}, func(c *action.Ctx) { ready(c, c.Arg(0).Ptr()) })
	}
	p.On(probe.RawTracepoint{Name: "sched_switch"}, func(c *action.Ctx) {
		prev, next := c.Arg(1).Ptr(), c.Arg(2).Ptr()
		c.If(prev.Member(state).Eq(0), func() { ready(c, prev) })
		starts.Take(c, next.Member("pid"), func(t0 action.Int) {
			key := c.Const(0)
			if o.key != nil {
				key = o.key(next)
			}
			waits.Observe(c, c.Nsecs().Sub(t0).Div(o.per), key)
		})
	})
	return p
}
