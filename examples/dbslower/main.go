// Dbslower prints the queries of a database server that take longer than a threshold.
//
//	# dbslower postgres
//	Tracing postgres queries slower than 1 ms... Hit Ctrl-C to end.
//	TIME(s)        PID           MS QUERY
//	1.765087       16329   2001.034 select pg_sleep(2);
//
// See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("dbslower", run)) }

// query is a query that has been answered.
type query struct {
	Begin, Took uint64
	PID         uint32
	Text        [256]byte
}

// call is the state that is kept from a query's start to its end.
type call struct {
	Nsecs uint64
	Text  [256]byte
}

// servers are the executables that are traced if none is named.
var servers = map[string]string{
	"postgres": "/usr/lib/postgresql/*/bin/postgres",
	"mysql":    "/usr/sbin/mysqld",
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("dbslower", "Trace queries of a database server that take longer than a threshold.",
		"dbslower postgres", "those of PostgreSQL that take 1 ms or more",
		"dbslower -m 30 -p 480 mysql", "of the MySQL server 480, 30 ms or more")
	t.Operands("postgres|mysql", 1, 1)
	pid := t.PID()
	path := t.String("x,exe", "FILE", "the server's executable")
	least := t.Int("m,threshold", "MSECS", 1, "only queries that took at least this long")
	t.Duration()
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	server := t.Args()[0]
	exe, ok := servers[server]
	switch {
	case !ok:
		return t.Usagef("%q is neither postgres nor mysql", server)
	case *path != "":
		exe = *path
	}

	calls := action.NewHash[uint32, call]("calls", 0)
	events := action.NewEvents[query]("queries", 1<<20)
	p := action.NewProgram("dbslower")
	// The first argument of both is the query's text.
	p.On(probe.USDT{Path: exe, Name: "query__start", PID: *pid}, func(c *action.Ctx) {
		calls.Set(c, c.TID(), action.Key(c.Nsecs(), c.Arg(0).UserStr(256)))
	})
	p.On(probe.USDT{Path: exe, Name: "query__done", PID: *pid}, func(c *action.Ctx) {
		calls.Take(c, c.TID(), func(v action.Int) {
			took := c.Let(c.Nsecs().Sub(v.Elem("Nsecs")))
			c.ReturnUnless(took.Ge(int64(*least) * 1e6))
			events.Emit(c, func(e *query, b *action.Bind) {
				b.Set(&e.Begin, v.Elem("Nsecs"))
				b.Set(&e.Took, took)
				b.Set(&e.PID, c.PID())
				b.Set(&e.Text, v.Elem("Text"))
			})
		})
	})

	start := fmt.Sprintf("Tracing %s queries slower than %d ms", server, *least)
	return t.Run(ctx, stdout, start, func(r *tool.Run) error {
		tab := r.Table("TIME(s) %-14.6f", "PID %-7d", "MS %8.3f", "QUERY %s")
		tab.Header()
		return tool.Each(r, events, func(e *query) error {
			text := strings.Join(strings.Fields(action.Text(e.Text[:])), " ") // on one line
			return tab.Row(r.Time(e.Begin).Sub(r.Now()).Seconds(), e.PID, float64(e.Took)/1e6, text)
		})
	}, p)
}
