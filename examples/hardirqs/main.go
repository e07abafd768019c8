// Hardirqs prints the time that CPUs spend in the handlers of hardware interrupts, by
// device.
//
//	# hardirqs
//	Tracing hard irqs... Hit Ctrl-C to end.
//
//	HARDIRQ                    TOTAL_usecs
//	virtio1-req.0                        8
//	virtio0-stats                       11
//	virtio3-tx                          18
//
// See README.md.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("hardirqs", run)) }

// device is the name of an interrupt's handler, as in /proc/interrupts.
type device [32]byte

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("hardirqs", "Add up the time that CPUs spend in interrupt handlers, by device.",
		"hardirqs -T 1 10", "every second, ten times, with the time of day",
		"hardirqs -d", "how long they took each, as histograms, on Ctrl-C")
	cpu := t.CPU("c,cpu")
	spent := tool.NewSpent[device](t, "hardirq", 256)
	if err := errors.Join(t.Parse(args, stdout), spent.Check()); err != nil {
		return err
	}

	// A CPU handles one hardware interrupt at a time.
	starts := action.NewHash[uint32, uint64]("starts", 0)
	p := spent.Program()
	p.IncludeSelf = true // interrupts run in the context of whichever thread they interrupt
	p.On(probe.RawTracepoint{Name: "irq_handler_entry"}, func(c *action.Ctx) {
		tool.FilterCPU(c, *cpu)
		starts.Set(c, c.CPU(), c.Nsecs())
	})
	// The arguments are the number, the struct irqaction and the handler's result. All
	// handlers of a shared interrupt are called; one returns 0 if its device did not cause
	// it.
	p.On(probe.RawTracepoint{Name: "irq_handler_exit"}, func(c *action.Ctx) {
		starts.Take(c, c.CPU(), func(t0 action.Int) {
			c.ReturnUnless(c.Arg(2).Ne(0))
			spent.Add(c, c.Nsecs().Sub(t0), c.Arg(1).Ptr().Member("name").Str(32))
		})
	})
	return t.Run(ctx, stdout, "Tracing hard irqs", func(r *tool.Run) error {
		return spent.Show(r, 26, func(d device) string { return action.Text(d[:]) })
	}, p)
}
