// Tcpconnect prints every TCP connection that this machine opens, and who does it.
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
	"io"
	"os"
	"slices"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("tcpconnect", run)) }

// connect is a connection that is being opened. Addresses are IPv6, or IPv4
// mapped into it.
type connect struct {
	Nsecs        uint64
	PID, UID     uint32
	SAddr, DAddr [16]byte
	DPort        uint16
	Comm         action.Comm
}

// flow is what -c counts.
type flow struct {
	SAddr, DAddr [16]byte
	DPort        uint16
}

const (
	protocolTCP = 6 // IPPROTO_TCP
	synSent     = 2 // TCP_SYN_SENT, include/net/tcp_states.h
)

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("tcpconnect", "Trace TCP connections that are opened: who connects to where.",
		"tcpconnect -t -P 80,443", "to these ports, with times",
		"tcpconnect -c", "count by address and port")
	pid := t.PID()
	uid := t.Int("u", "UID", -1, "only this user")
	ports := t.Ports("P", "only these ports")
	times := t.Bool("t", "with seconds since the first event")
	users := t.Bool("U", "with the user's id")
	count := t.Bool("c", "count connections by address and port")
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	events := action.NewEvents[connect]("connects", 0)
	counts := action.NewCounter[flow]("counts", 0)
	p := action.NewProgram("tcpconnect")
	p.On(probe.Tracepoint{Group: "sock", Name: "inet_sock_set_state"}, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		c.ReturnUnless(c.Field("newstate").Eq(synSent).And(c.Field("protocol").Eq(protocolTCP)))
		if *uid >= 0 {
			c.ReturnUnless(c.UID().Eq(*uid))
		}
		tool.FilterPorts(c, c.Field("dport"), *ports)
		if *count {
			counts.Inc(c, c.Field("saddr_v6"), c.Field("daddr_v6"), c.Field("dport"))
			return
		}
		events.Emit(c, func(e *connect, b *action.Bind) {
			b.Set(&e.Nsecs, c.Nsecs())
			b.Set(&e.PID, c.PID())
			b.Set(&e.UID, c.UID())
			b.Set(&e.SAddr, c.Field("saddr_v6"))
			b.Set(&e.DAddr, c.Field("daddr_v6"))
			b.Set(&e.DPort, c.Field("dport"))
			b.Set(&e.Comm, c.Comm())
		})
	})

	return t.Run(ctx, stdout, "Tracing TCP connects", func(s *tool.Session) error {
		if *count {
			return showCounts(s, counts)
		}
		tab := s.Table("TIME(s) %-9.3f", "UID %-6d", "PID %-7d", "COMM %-16s", "IP %-2d", "SADDR %-16s", "DADDR %-16s", "DPORT %d")
		tab.Show("TIME(s)", *times).Show("UID", *users).Header()
		var first uint64
		return tool.Each(s, events, func(e *connect) error {
			first = cmp.Or(first, e.Nsecs)
			return tab.Row(float64(e.Nsecs-first)/1e9, e.UID, e.PID, e.Comm, tool.IPVersion(e.DAddr), tool.Addr(e.SAddr), tool.Addr(e.DAddr), e.DPort)
		})
	}, p)
}

func showCounts(s *tool.Session, counts *action.Counter[flow]) error {
	read, err := tool.Counts(s, counts)
	if err != nil {
		return err
	}
	tab := s.Table("LADDR %-25s", "RADDR %-25s", "RPORT %-8d", "CONNECTS %d")
	return s.Every(func() error {
		entries, err := read()
		slices.SortStableFunc(entries, func(a, b mapx.Entry[flow, uint64]) int { return cmp.Compare(b.Value, a.Value) })
		s.Printf("\n")
		tab.Header()
		for _, e := range entries {
			tab.Row(tool.Addr(e.Key.SAddr), tool.Addr(e.Key.DAddr), e.Key.DPort, e.Value)
		}
		return err
	})
}
