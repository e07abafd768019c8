package tool_test

import (
	"context"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

// This is a complete tool; its main passes it to tool.Main.
func Example() {
	run := func(ctx context.Context, args []string, stdout *tool.Output) error {
		t := tool.New("switches", "Count context switches by thread name.",
			"switches 1", "every second",
			"switches -json 1 5", "five times, as JSON")
		t.Interval(0)
		if err := t.Parse(args, stdout); err != nil {
			return err
		}
		count := action.NewCounter[action.Comm]("switches", 0)
		p := action.NewProgram("switches")
		p.On(probe.RawTracepoint{Name: "sched_switch"}, func(c *action.Ctx) { count.Inc(c, c.Comm()) })
		return t.Run(ctx, stdout, "Counting context switches", func(r *tool.Run) error {
			read, err := tool.Counts(r, count)
			if err != nil {
				return err
			}
			tab := r.Table("COMM %-16s", "SWITCHES %8d")
			return r.Every(func() error {
				entries, err := read()
				tab.Header()
				for _, e := range entries {
					tab.Row(e.Key, e.Value)
				}
				return err
			})
		}, p)
	}
	run(context.Background(), []string{"-h"}, tool.NewOutput(os.Stdout))
	// Output:
	// Usage: switches [flags] [interval [count]]
	// Count context switches by thread name.
	//
	//   -i, --interval TIME  print at this interval: 1, 5s, 100ms
	//   -json                one JSON object per line
	//   -record DIR          also record the input of the result in DIR
	//   -replay DIR          show a recording instead; needs no root
	//   -v                   print how the probes are attached
	//   -requires            print the privileges that the run needs, and end
	//   -unsafe              probe within instructions, read others' FUSE
	//
	// Examples:
	//   switches 1          every second
	//   switches -json 1 5  five times, as JSON
}
