// Tcpconnect prints every TCP connection that this machine opens, with the process.
//
//	# tcpconnect -t
//	Tracing TCP connects... Hit Ctrl-C to end.
//	TIME(s)   PID     COMM             IP SADDR            DADDR            DPORT
//	0.000     3522    python3          4  127.0.0.1        127.0.0.1        56809
//	0.071     3522    python3          4  127.0.0.1        127.0.0.1        56809
//	0.132     3522    python3          4  127.0.0.1        127.0.0.1        56809
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"net/netip"
	"os"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("tcpconnect", run)) }

// connect is a connection that is being opened or, with -d, an answer of a name server.
// Addresses are IPv6, or IPv4 mapped into it. If SAddr4 and DAddr4 are not 0, they are the
// addresses.
type connect struct {
	Nsecs          uint64
	PID, UID       uint32
	SAddr, DAddr   [16]byte
	SAddr4, DAddr4 [4]byte
	SPort, DPort   uint16
	Size           uint32 // of the answer; 0 for a connection
	Comm           action.Comm
	Answer         [answerSize]byte
}

// caller is the process that opens a connection, kept until the connection is open for -L.
type caller struct {
	Nsecs    uint64
	PID, UID uint32
	Comm     action.Comm
}

// flow is the key of -c's counts.
type flow struct {
	SAddr, DAddr [16]byte
	DPort        uint16
}

const (
	protocolTCP = 6 // IPPROTO_TCP
	synSent     = 2 // TCP_SYN_SENT, include/net/tcp_states.h
)

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid, uid                           *int
	ports                              *[]int
	times, users, lports, names, count *bool
	versions                           *tool.IPVersions
}

// maps are the maps that the programs write, whichever of them the kernel runs.
type maps struct {
	events  *action.Events[connect]
	counts  *action.Counter[flow]
	callers *action.Hash[uint64, caller] // until connections are open, for -L
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	m := &maps{
		action.NewEvents[connect]("connects", 0), action.NewCounter[flow]("counts", 0),
		action.NewLRU[uint64, caller]("callers", 0),
	}
	programs := []*action.Program{o.states(m)}
	if !*o.lports && !*o.names && !*o.count {
		programs = []*action.Program{o.function(m), programs[0]}
	}
	return o.Run(ctx, stdout, "Tracing TCP connects", func(r *tool.Run) error {
		if *o.count {
			return showCounts(r, m.counts)
		}
		return o.show(r, m.events)
	}, programs...)
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("tcpconnect", "Trace TCP connections that are opened: who connects to where.",
		"tcpconnect -t -P 80,443", "to these ports, with times",
		"tcpconnect -c", "count by address and port",
		"tcpconnect -d -L", "with the name that was looked up, and both ports")
	o := &options{
		Tool:     t,
		pid:      t.PID(),
		uid:      t.UID("u,uid"),
		ports:    t.Ports("P,port", "only these ports"),
		times:    t.Bool("t,timestamp", "with seconds since the first event"),
		users:    t.Bool("U,print-uid", "with the user's id"),
		lports:   t.Bool("L,lport", "with the local port, once the connection is open"),
		names:    t.Bool("d,dns", "with the name that DNS gave the address for"),
		count:    t.Bool("c,count", "count connections by address and port"),
		versions: t.IPVersions(),
	}
	err := t.Parse(args, stdout)
	if err == nil && *o.count && (*o.names || *o.lports) {
		err = t.Usagef("-c counts, and has neither names nor local ports: not with -d and -L")
	}
	return o, err
}

// states emits or counts connections by the changes of their state and, for -d, emits the
// answers of name servers.
func (o *options) states(m *maps) *action.Program {
	p := action.NewProgram("tcpconnect")
	p.IncludeSelf = *o.lports || *o.names // packets arrive in the context of whichever thread runs
	p.On(probe.Tracepoint{Group: "sock", Name: "inet_sock_set_state"}, func(c *action.Ctx) {
		c.ReturnUnless(c.Field("protocol").Eq(protocolTCP))
		if *o.lports { // a connection has no local port in this state
			c.If(c.Field("oldstate").Eq(synSent), func() {
				m.callers.Take(c, c.Field("skaddr"), func(v action.Int) {
					m.emit(c, v.Elem("Nsecs"), v.Elem("PID"), v.Elem("UID"), v.Elem("Comm"))
				})
			})
		}
		c.ReturnUnless(c.Field("newstate").Eq(synSent))
		o.filter(c, c.Field("family"), c.Field("dport"))
		switch {
		case *o.count:
			m.counts.Inc(c, c.Field("saddr_v6"), c.Field("daddr_v6"), c.Field("dport"))
		case *o.lports:
			m.callers.Set(c, c.Field("skaddr"), action.Key(c.Nsecs(), c.PID(), c.UID(), c.Comm()))
		default:
			m.emit(c, c.Nsecs(), c.PID(), c.UID(), c.Comm())
		}
	})
	if *o.names {
		p.On(probe.RawTracepoint{Name: "netif_receive_skb"}, func(c *action.Ctx) {
			answers(c, c.Arg(0).PtrTo("struct sk_buff", false), func(payload action.Ptr, size action.Int) {
				m.events.Emit(c, func(e *connect, b *action.Bind) {
					b.Set(&e.Size, size)
					b.Set(&e.Answer, payload.Bytes(answerSize))
				})
			})
		})
	}
	return p
}

func (o *options) filter(c *action.Ctx, family, dport action.Int) {
	tool.FilterPID(c, *o.pid)
	tool.FilterUID(c, *o.uid)
	o.versions.Filter(c, family)
	tool.FilterPorts(c, dport, *o.ports)
}

// emit emits a connection whose state changes.
func (m *maps) emit(c *action.Ctx, nsecs, pid, uid action.Int, comm any) {
	m.events.Emit(c, func(e *connect, b *action.Bind) {
		b.Set(&e.Nsecs, nsecs)
		b.Set(&e.PID, pid)
		b.Set(&e.UID, uid)
		b.Set(&e.SAddr, c.Field("saddr_v6"))
		b.Set(&e.DAddr, c.Field("daddr_v6"))
		b.Set(&e.SPort, c.Field("sport"))
		b.Set(&e.DPort, c.Field("dport"))
		b.Set(&e.Comm, comm)
	})
}

// show prints connections when they are opened, with the requested columns.
func (o *options) show(r *tool.Run, events *action.Events[connect]) error {
	tab := r.Table("TIME(s) %-9.3f", "UID %-6d", "PID %-7d", "COMM %-16s", "IP %-2d", "SADDR %-16s",
		"LPORT %-5d", "DADDR %-16s", "DPORT %-5d", "QUERY %s")
	tab.Show("TIME(s)", *o.times).Show("UID", *o.users).Show("LPORT", *o.lports).Show("QUERY",
		*o.names).Header()
	looked := map[netip.Addr]string{}
	return tool.Each(r, events, func(e *connect) error {
		if e.Size > 0 {
			if name, addrs := parseAnswer(e.Answer[:min(e.Size, answerSize)]); name != "" {
				for _, a := range addrs {
					looked[a] = name
				}
			}
			return nil
		}
		local, remote := e.addrs()
		return tab.Row(r.Seconds(e.Nsecs), e.UID, e.PID, e.Comm, tool.IPVersion(remote.As16()), local,
			e.SPort,
			remote, e.DPort, cmp.Or(looked[remote], "No DNS Query"))
	})
}

func showCounts(r *tool.Run, counts *action.Counter[flow]) error {
	tab := r.Table("LADDR %-25s", "RADDR %-25s", "RPORT %-8d", "CONNECTS %d")
	return tool.EachCounts(r, counts, func(entries []mapx.Entry[flow, uint64]) error {
		r.Printf("\n")
		tab.Header()
		for _, e := range entries {
			tab.Row(tool.Addr(e.Key.SAddr), tool.Addr(e.Key.DAddr), e.Key.DPort, e.Value)
		}
		return nil
	})
}
