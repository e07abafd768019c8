// Gethostlatency prints every lookup of a host name and its latency.
//
//	# gethostlatency
//	Tracing host name lookups... Hit Ctrl-C to end.
//	TIME      PID     COMM               LATms HOST
//	17:07:08  3401    getent              0.54 localhost
//	17:07:08  3402    getent              0.97 nowhere.invalid
//	17:07:08  3402    getent              0.57 nowhere.invalid
//
// See README.md.
package main

import (
	"context"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("gethostlatency", run)) }

// lookup is a call that has returned.
type lookup struct {
	Nsecs, Took uint64
	PID         uint32
	Comm        action.Comm
	Host        [80]byte
}

// call is the state that is kept from a call to its return.
type call struct {
	Nsecs uint64
	Host  [80]byte
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("gethostlatency",
		"Trace lookups of host names by the C library, and how long they take.",
		"gethostlatency", "of all processes",
		"gethostlatency -p 1829", "those of process 1829")
	pid := t.PID()
	library := t.String("l", "FILE", "the C library to trace instead of the system's")
	t.Duration()
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	libc := "libc.so.6"
	if *library != "" {
		libc = *library
	}

	calls := action.NewPair[call]("calls", 0)
	events := action.NewEvents[lookup]("lookups", 0)
	var entries, returns probe.Set
	for _, name := range []string{"getaddrinfo", "gethostbyname", "gethostbyname2"} {
		entries = append(entries, probe.Uprobe{Path: libc, Symbol: name})
		returns = append(returns, probe.Uretprobe{Path: libc, Symbol: name})
	}
	p := action.NewProgram("gethostlatency")
	p.On(entries, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		c.ReturnUnless(c.Arg(0).Ne(0)) // getaddrinfo may look up a service alone
		calls.Enter(c, action.Key(c.Nsecs(), c.Arg(0).UserStr(80)))
	})
	p.On(returns, func(c *action.Ctx) {
		calls.Leave(c, func(v action.Int) {
			events.Emit(c, func(e *lookup, b *action.Bind) {
				b.Set(&e.Nsecs, c.Nsecs())
				b.Set(&e.Took, c.Nsecs().Sub(v.Elem("Nsecs")))
				b.Set(&e.PID, c.PID())
				b.Set(&e.Comm, c.Comm())
				b.Set(&e.Host, v.Elem("Host"))
			})
		})
	})

	return t.Run(ctx, stdout, "Tracing host name lookups", func(r *tool.Run) error {
		tab := r.Table("TIME %-9s", "PID %-7d", "COMM %-16s", "LATms %7.2f", "HOST %s")
		tab.Header()
		return tool.Each(r, events, func(e *lookup) error {
			return tab.Row(r.Time(e.Nsecs).Format("15:04:05"), e.PID, e.Comm, float64(e.Took)/1e6, e.Host)
		})
	}, p)
}
