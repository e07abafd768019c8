// Tcplife prints a line for each TCP connection that ends: its process and addresses, the
// bytes sent and received, and its duration.
//
//	# tcplife
//	Tracing TCP connections until they end... Hit Ctrl-C to end.
//	PID     COMM       LADDR           LPORT RADDR           RPORT TX_KB RX_KB MS
//	3685    python3    127.0.0.1       44478 127.0.0.1       44893    64     0 11.25
//	3685    python3    127.0.0.1       44893 127.0.0.1       44478     0    64 11.30
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

func main() { os.Exit(tool.Main("tcplife", run)) }

// session is a connection that has ended.
type session struct {
	Nsecs, Span, Received, Acked uint64
	Local, Remote                [16]byte // IPv4 as IPv6
	LocalPort, RemotePort        uint16
	PID                          uint32
	Comm                         action.Comm
}

// owner is the process that a connection belongs to.
type owner struct {
	PID  uint32
	Comm action.Comm
}

// States of a connection (include/net/tcp_states.h).
const (
	synSent  = 2
	finWait1 = 4
	closed   = 7
	lastAck  = 9
)

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid                     *int
	clock, times, wide, csv *bool
	versions                *tool.IPVersions
	locals, remotes         *[]int
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	p, events := o.program()
	return o.Run(ctx, stdout, "Tracing TCP connections until they end", func(r *tool.Run) error {
		return o.show(r, events)
	}, p)
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("tcplife", "Trace TCP connections: between whom, how much, for how long.",
		"tcplife -D 80,443", "those to these ports",
		"tcplife -T -p 181", "those of process 181, with the time of day")
	o := &options{
		Tool:     t,
		pid:      t.PID(),
		clock:    t.Bool("T,time", "with the time of day"),
		times:    t.Bool("t,timestamp", "with seconds since the first event"),
		wide:     t.Bool("w,wide", "wide columns, for IPv6 addresses"),
		csv:      t.Bool("s,csv", "comma-separated values"),
		versions: t.IPVersions(),
		locals:   t.Ports("L,localport", "only these local ports: 80,443"),
		remotes:  t.Ports("D,remoteport", "only these remote ports"),
	}
	t.Duration()
	return o, t.Parse(args, stdout)
}

// program records connections until they are closed.
func (o *options) program() (*action.Program, *action.Events[session]) {
	births := action.NewLRU[uint64, uint64]("births", 0)
	owners := action.NewLRU[uint64, owner]("owners", 0)
	events := action.NewEvents[session]("sessions", 0)
	p := action.NewProgram("tcplife")
	p.IncludeSelf = true // packets arrive in the context of whichever thread runs
	p.On(probe.Tracepoint{Group: "sock", Name: "inet_sock_set_state"}, func(c *action.Ctx) {
		c.ReturnUnless(c.Field("protocol").Eq(6)) // TCP
		tool.FilterPorts(c, c.Field("sport"), *o.locals)
		tool.FilterPorts(c, c.Field("dport"), *o.remotes)
		o.versions.Filter(c, c.Field("family"))
		sk, state := c.Field("skaddr"), c.Let(c.Field("newstate"))
		c.If(state.Lt(finWait1), func() { births.Set(c, sk, c.Nsecs()) })
		// Only in these states is the current thread the connection's.
		c.If(state.Eq(synSent).Or(state.Eq(lastAck)), func() {
			owners.Set(c, sk, action.Key(c.PID(), c.Comm()))
		})
		c.ReturnUnless(state.Eq(closed))
		births.Take(c, sk, func(born action.Int) {
			end := func(owner action.Int, comm any) {
				if *o.pid != 0 {
					c.ReturnUnless(owner.Eq(*o.pid))
				}
				tcp := sk.PtrTo("struct tcp_sock", false)
				events.Emit(c, func(e *session, b *action.Bind) {
					b.Set(&e.Nsecs, c.Nsecs())
					b.Set(&e.Span, c.Nsecs().Sub(born))
					b.Set(&e.Received, tcp.Member("bytes_received"))
					b.Set(&e.Acked, tcp.Member("bytes_acked"))
					b.Set(&e.Local, c.Field("saddr_v6"))
					b.Set(&e.Remote, c.Field("daddr_v6"))
					b.Set(&e.LocalPort, c.Field("sport"))
					b.Set(&e.RemotePort, c.Field("dport"))
					b.Set(&e.PID, owner)
					b.Set(&e.Comm, comm)
				})
			}
			owners.Take(c, sk, func(o action.Int) {
				end(o.Elem("PID"), o.Elem("Comm"))
			}, func() { end(c.PID(), c.Comm()) })
		})
	})
	return p, events
}

// show prints connections when they end.
func (o *options) show(r *tool.Run, events *action.Events[session]) error {
	addr := map[bool]string{false: "ADDR %-15s", true: "ADDR %-39s"}[*o.wide]
	owner, comm := "PID %-7d", "COMM %-10.10s"
	if *o.clock || *o.times {
		owner, comm = "PID %-5d", "COMM %-5.5s" // so that the line fits a terminal
	}
	tab := r.Table("TIME %-8s", "TIME(s) %-9.6f", owner, comm, "IP %-2d", "L"+addr, "LPORT %-5d",
		"R"+addr, "RPORT %-5d", "TX_KB %5d", "RX_KB %5d", "MS %.2f")
	tab.Show("TIME", *o.clock).Show("TIME(s)", *o.times).Show("IP", *o.wide ||
		*o.csv).CSV(*o.csv).Header()
	return tool.Each(r, events, func(e *session) error {
		return tab.Row(r.Time(e.Nsecs).Format("15:04:05"), r.Seconds(e.Nsecs), e.PID, e.Comm,
			tool.IPVersion(e.Remote), tool.Addr(e.Local), e.LocalPort,
			tool.Addr(e.Remote), e.RemotePort, e.Acked/1024, e.Received/1024, float64(e.Span)/1e6)
	})
}
