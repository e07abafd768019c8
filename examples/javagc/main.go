// Javagc prints the garbage collections of a Java process: the start, the duration, and the
// memory freed in each pool.
//
//	# javagc 4711
//	Tracing garbage collections... Hit Ctrl-C to end.
//	START(s)  TIME(us)   DESCRIPTION
//	0.022     42561.50   MarkSweepCompact Eden Space: 14433K -> 0K of 17472K
//	0.022     42730.11   full collection
//
// See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("javagc", run)) }

// collection is a garbage collection, or its part in one pool.
type collection struct {
	Begin, Took       uint64
	Value, After, Max int64 // Value is begun's
	Manager, Pool     [48]byte
}

// begun is the state that is kept until the end of a collection.
type begun struct {
	Nsecs uint64
	Value int64 // bytes used in a pool, or whether a collection is full
}

// part is the key of a collection on a thread, for which Manager and Pool are 0, or of its
// part in one pool, for which they are the addresses of the names.
type part struct {
	TID           uint64
	Manager, Pool uint64
}

// options holds the parsed command line.
type options struct {
	*tool.Tool
	least  *int
	millis *bool
	filter *string
	pid    int
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	p, events := o.program()
	return o.Run(ctx, stdout, "Tracing garbage collections", func(r *tool.Run) error {
		return o.show(r, events)
	}, p)
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("javagc", "Trace the garbage collections of a Java process.",
		"javagc 4711", "those of process 4711",
		"javagc -M 10 4711", "those that took 10 ms or more")
	t.Operands("PID", 1, 1)
	o := &options{
		Tool:   t,
		least:  t.Int("M", "MSECS", 0, "only collections that took at least this long"),
		millis: t.Bool("m", "in milliseconds instead of microseconds"),
		filter: t.String("F", "TEXT", "only with this text in the description"),
	}
	t.Duration()
	err := t.Parse(args, stdout)
	if err != nil {
		return nil, err
	}
	if o.pid, err = strconv.Atoi(t.Args()[0]); err != nil || o.pid <= 0 {
		return nil, t.Usagef("%q is not a process id", t.Args()[0])
	}
	return o, nil
}

// program stores the state at the begin of a collection, by key, and emits the collection at
// its end.
func (o *options) program() (*action.Program, *action.Events[collection]) {
	starts := action.NewHash[part, begun]("starts", 0)
	events := action.NewEvents[collection]("collections", 0)
	p := action.NewProgram("javagc")
	watch := func(name string, key func(c *action.Ctx) action.Tuple, value int, pool bool) {
		at := probe.USDT{Path: "libjvm.so", Provider: "hotspot", Name: name + "__begin", PID: o.pid}
		p.On(at, func(c *action.Ctx) { starts.Set(c, key(c), action.Key(c.Nsecs(), c.Arg(value))) })
		at.Name = name + "__end"
		p.On(at, func(c *action.Ctx) {
			starts.Take(c, key(c), func(v action.Int) {
				events.Emit(c, func(e *collection, b *action.Bind) {
					b.Set(&e.Begin, v.Elem("Nsecs"))
					b.Set(&e.Took, c.Nsecs().Sub(v.Elem("Nsecs")))
					b.Set(&e.Value, v.Elem("Value"))
					if pool {
						b.Set(&e.After, c.Arg(5))
						b.Set(&e.Max, c.Arg(7))
						b.Set(&e.Manager, c.Arg(0).UserStr(48))
						b.Set(&e.Pool, c.Arg(2).UserStr(48))
					}
				})
			})
		})
	}
	watch("gc", func(c *action.Ctx) action.Tuple { return action.Key(c.TID(), 0, 0) }, 0, false)
	// The arguments are the manager, the length of its name, the pool, the length of its
	// name, and the bytes in it: initially, used, committed, and at most.
	watch("mem__pool__gc", func(c *action.Ctx) action.Tuple {
		return action.Key(c.TID(), c.Arg(0), c.Arg(2))
	}, 5, true)
	return p, events
}

// show prints collections when they end.
func (o *options) show(r *tool.Run, events *action.Events[collection]) error {
	unit, per := "us", time.Microsecond
	if *o.millis {
		unit, per = "ms", time.Millisecond
	}
	tab := r.Table("START(s) %-9.3f", "TIME("+unit+") %-10.2f", "DESCRIPTION %s")
	tab.Header()
	return tool.Each(r, events, func(e *collection) error {
		what := e.describe()
		if e.Took < uint64(*o.least)*1e6 || !strings.Contains(what, *o.filter) {
			return nil
		}
		return tab.Row(r.Time(e.Begin).Sub(r.Now()).Seconds(), float64(e.Took)/float64(per), what)
	})
}

func (e *collection) describe() string {
	switch pool := action.Text(e.Pool[:]); {
	case pool != "":
		text := fmt.Sprintf("%s %s: %dK -> %dK", action.Text(e.Manager[:]), pool, e.Value/1024,
			e.After/1024)
		if e.Max > 0 { // -1 if there is no limit
			text += fmt.Sprintf(" of %dK", e.Max/1024)
		}
		return text
	case e.Value != 0:
		return "full collection"
	}
	return "collection"
}
