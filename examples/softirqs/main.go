// Softirqs prints the time that CPUs spend in soft interrupts, by kind: the part of
// network, block and timer work that the kernel defers from the interrupt handler.
//
//	# softirqs
//	Tracing soft irqs... Hit Ctrl-C to end.
//
//	SOFTIRQ          TOTAL_usecs
//	block                     28
//	timer                   1258
//	sched                   2392
//	rcu                     3562
//
// See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("softirqs", run)) }

// names are the kinds of soft interrupts by number: the enum in include/linux/interrupt.h.
var names = []string{
	"hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched",
	"hrtimer", "rcu",
}

func name(vec uint32) string {
	if vec < uint32(len(names)) {
		return names[vec]
	}
	return fmt.Sprintf("softirq %d", vec)
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("softirqs", "Add up the time that CPUs spend in soft interrupts, by kind.",
		"softirqs -T 1 10", "every second, ten times, with the time of day",
		"softirqs -d", "how long they took each, as histograms, on Ctrl-C")
	cpu := t.CPU("c,cpu")
	spent := tool.NewSpent[uint32](t, "softirq", 64)
	if err := errors.Join(t.Parse(args, stdout), spent.Check()); err != nil {
		return err
	}

	// A CPU handles one soft interrupt at a time.
	starts := action.NewHash[uint32, uint64]("starts", 0)
	p := spent.Program()
	p.IncludeSelf = true // interrupts run in the context of whichever thread they interrupt
	p.On(probe.RawTracepoint{Name: "softirq_entry"}, func(c *action.Ctx) {
		tool.FilterCPU(c, *cpu)
		starts.Set(c, c.CPU(), c.Nsecs())
	})
	p.On(probe.RawTracepoint{Name: "softirq_exit"}, func(c *action.Ctx) {
		starts.Take(c, c.CPU(), func(t0 action.Int) { spent.Add(c, c.Nsecs().Sub(t0), c.Arg(0)) })
	})
	return t.Run(ctx, stdout, "Tracing soft irqs", func(r *tool.Run) error {
		return spent.Show(r, 16, name)
	}, p)
}
