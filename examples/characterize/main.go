// Characterize answers the four questions about a workload, for one source of events: who
// causes it, why, what it is, and how it changes over time.
//
//	# characterize 't:syscalls:sys_enter_read args.count'
//	Characterizing tracepoint:syscalls:sys_enter_read... Hit Ctrl-C to end.
//	WHO: 23 events
//	COUNT       PCT PID     COMM
//	23        100.0 7850    cat
//
// See README.md.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/spec"
)

func main() { os.Exit(tool.Main("characterize", run)) }

type (
	// process answers who: it is the key of who's counts.
	process struct {
		PID  uint64
		Comm action.Comm
	}
	// path answers why: the stacks of a process, innermost frame first.
	path struct {
		PID    uint64
		Kernel [20]uint64
		User   [20]uint64
	}
	// value answers what: a number or a text.
	value struct {
		N uint64
		S [spec.DefaultText]byte
	}
)

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid, top *int
	event    *spec.Probe // with a value, or none
}

// counters are the maps for the four answers.
type counters struct {
	who  *action.Counter[process]
	why  *action.Counter[path]
	what *action.Counter[value]
	when *action.Counter[uint64] // by second
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	m := &counters{
		action.NewCounter[process]("who", 0), action.NewCounter[path]("why", 0),
		action.NewCounter[value]("what", 0), action.NewCounter[uint64]("when", 0),
	}
	start := fmt.Sprintf("Characterizing %v", o.event.Target)
	return o.Run(ctx, stdout, start, func(r *tool.Run) error { return o.show(r, m) }, o.program(m))
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("characterize",
		"Characterize a workload: who causes an event, why (by stack), what it is\n"+
			"(by a value), and how it goes over time. An EVENT is TARGET [/FILTER/] [VALUE]:\n"+
			"a target and expressions of bpftrace's.",
		"characterize 't:syscalls:sys_enter_read args.count'", "sizes of reads",
		"characterize -d 10 't:block:block_rq_issue comm'", "disk I/O, by whom")
	t.Operands("EVENT", 1, 1)
	o := &options{Tool: t, pid: t.PID()}
	o.top = t.Int("n", "N", 5, "the N most frequent processes, stacks and values")
	t.Duration()
	err := t.Parse(args, stdout)
	if err != nil {
		return nil, err
	}
	probes, err := spec.Parse(t, t.Args(), &spec.Options{PID: *o.pid})
	if err != nil {
		return nil, err
	}
	o.event = probes[0]
	o.Options.Resolve = spec.Resolve(probes)
	if len(o.event.Values) > 1 {
		return nil, t.Usagef("%s: give an event one value at most", o.event.Text)
	}
	return o, nil
}

// program counts every event for all four answers.
func (o *options) program(m *counters) *action.Program {
	p := action.NewProgram("characterize")
	for _, a := range o.event.Actions {
		p.On(a.Target, func(c *action.Ctx) {
			tool.FilterPID(c, *o.pid)
			a.Run(c)
			m.who.Inc(c, c.PID(), c.Comm())
			m.why.Inc(c, c.PID(), c.Kstack(20), c.Ustack(20))
			m.when.Inc(c, c.Nsecs().Div(1_000_000_000))
			for i, v := range o.event.Values {
				if v.IsText() {
					m.what.Inc(c, 0, a.Values[i])
				} else {
					m.what.Inc(c, a.Values[i], "")
				}
			}
		})
	}
	return p
}

// show prints the answers at the end.
func (o *options) show(r *tool.Run, m *counters) error {
	if *o.pid != 0 {
		r.Observe(*o.pid) // it may end before its stacks are named
	}
	answers := []func() error{showWho(r, m.who, *o.top), showWhy(r, m.why, *o.top)}
	for _, v := range o.event.Values {
		answers = append(answers, showWhat(r, m.what, v, *o.top))
	}
	answers = append(answers, showWhen(r, o.JSON(), m.when))
	return r.Every(func() error {
		for _, fn := range answers {
			if err := fn(); err != nil {
				return err
			}
		}
		return nil
	})
}
