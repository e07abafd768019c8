// Forks is a tool of somebody else's: a module of its own that is built on
// package tool from outside.
package main

import (
	"context"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("forks", run)) }

type fork struct {
	Comm  action.Comm
	PID   uint32
	Child uint32
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("forks", "Trace forks: who starts whom.",
		"forks", "forks of all processes",
		"forks -p 181", "forks of process 181")
	pid := t.PID()
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	events := action.NewEvents[fork]("forks", 0)
	p := action.NewProgram("forks")
	p.On(probe.Tracepoint{Group: "sched", Name: "sched_process_fork"}, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		events.Emit(c, func(e *fork, b *action.Bind) {
			b.Set(&e.Comm, c.Comm())
			b.Set(&e.PID, c.PID())
			b.Set(&e.Child, c.Field("child_pid"))
		})
	})
	return t.Run(ctx, stdout, "Tracing forks", func(r *tool.Run) error {
		tab := r.Table("COMM %-16s", "PID %7d", "CHILD %7d")
		tab.Header()
		return tool.Each(r, events, func(e *fork) error { return tab.Row(e.Comm, e.PID, e.Child) })
	}, p)
}
