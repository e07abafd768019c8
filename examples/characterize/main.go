// Characterize answers the four questions about a workload, for one event source:
// who causes it, why, what it is, and how it changes over time.
//
//	# characterize 't:syscalls:sys_enter_read args.count'
//	Characterizing tracepoint:syscalls:sys_enter_read... Hit Ctrl-C to end.
//	WHO: 23 events
//	COUNT       %  PID     COMM
//	23      100.0  7850    cat
//
// See README.md.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/expr"
)

func main() { os.Exit(tool.Main("characterize", run)) }

type (
	// process is who.
	process struct {
		PID  uint64
		Comm action.Comm
	}
	// path is why: the stacks of a process, innermost frame first.
	path struct {
		PID    uint64
		Kernel [20]uint64
		User   [20]uint64
	}
	// value is what: a number or a text.
	value struct {
		N uint64
		S [expr.DefaultText]byte
	}
)

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("characterize", "Characterize a workload: who causes an event, why (by stack), what it is\n"+
		"(by a value), and how it goes over time. An EVENT is TARGET [/FILTER/] [VALUE]:\n"+
		"a target of bpftrace's, C's expressions.",
		"characterize 't:syscalls:sys_enter_read args.count'", "sizes of reads",
		"characterize -d 10 't:block:block_rq_issue comm'", "disk I/O, by whom")
	t.Operands("EVENT", 1, 1)
	pid := t.PID()
	top := t.Int("n", "N", 5, "so many processes, stacks and values, the most frequent")
	t.Duration()
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	spec, err := expr.ParseSpec(t.Args()[0], *pid)
	if err != nil {
		return t.Usagef("%w", err)
	}
	values, err := expr.ParseList(spec.Rest, spec.Target)
	if err != nil {
		return t.Usagef("%w", err)
	}
	if len(values) > 1 {
		return t.Usagef("%s: an event has one value at most", spec.Rest)
	}

	who := action.NewCounter[process]("who", 0)
	why := action.NewCounter[path]("why", 0)
	what := action.NewCounter[value]("what", 0)
	when := action.NewCounter[uint64]("when", 0)
	p := action.NewProgram("characterize")
	p.On(spec.Target, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		expr.Filter(c, spec.Filter)
		who.Inc(c, c.PID(), c.Comm())
		why.Inc(c, c.PID(), c.Kstack(20), c.Ustack(20))
		when.Inc(c, c.Nsecs().Div(1_000_000_000))
		for _, v := range values {
			if expr.Text(v) {
				what.Inc(c, 0, v)
			} else {
				what.Inc(c, v, "")
			}
		}
	})
	return t.Run(ctx, stdout, fmt.Sprintf("Characterizing %v", spec.Target), func(s *tool.Session) error {
		if *pid != 0 {
			s.Observe(*pid) // it may end before its stacks are named
		}
		show := []func() error{showWho(s, who, *top), showWhy(s, why, *top)}
		for _, v := range values {
			show = append(show, showWhat(s, what, v, *top))
		}
		show = append(show, showWhen(s, t.JSON(), when))
		return s.Every(func() error {
			for _, fn := range show {
				if err := fn(); err != nil {
					return err
				}
			}
			return nil
		})
	}, p)
}
