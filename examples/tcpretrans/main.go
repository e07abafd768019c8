// Tcpretrans prints every TCP segment that is retransmitted, which shows where packets are
// lost.
//
//	# tcpretrans
//	Tracing TCP retransmits... Hit Ctrl-C to end.
//	TIME     PID     IP LADDR:LPORT          T> RADDR:RPORT          STATE
//	01:55:05 0       4  10.153.223.157:22    R> 69.53.245.40:34619   ESTABLISHED
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("tcpretrans", run)) }

// flow is one direction of a connection. Addresses are IPv6, or IPv4 mapped into it.
type flow struct {
	Local, Remote tool.SockAddr
	LPort, RPort  uint16
}

// retransmit is a segment that is sent again.
type retransmit struct {
	Nsecs      uint64
	Flow       flow
	PID, State uint32
	Seq        uint32
	LossProbe  bool // an attempt to send the last segment again, before it is due
}

// states are the names of the states in include/net/tcp_states.h.
var states = []string{
	1: "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT",
	"CLOSE", "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV",
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("tcpretrans", "Trace TCP segments that are sent again, because no answer came.",
		"tcpretrans", "every retransmit",
		"tcpretrans -c", "count by connection")
	count := t.Bool("c,count", "count by connection")
	probes := t.Bool("l,lossprobe", "with tail loss probes (L>)")
	sequence := t.Bool("s,sequence", "with TCP sequence numbers")
	versions := t.IPVersions()
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	events := action.NewEvents[retransmit]("retransmits", 0)
	counts := action.NewCounter[flow]("counts", 0)
	p := action.NewProgram("tcpretrans")
	p.IncludeSelf = true // timers expire in the context of whichever thread runs
	note := func(c *action.Ctx, sk action.Ptr, more func(e *retransmit, b *action.Bind)) {
		tool.SockAddrs(c, sk, versions, func(local, remote action.Tuple) {
			parts := []any{
				local, remote, sk.Member("__sk_common.skc_num"),
				sk.Member("__sk_common.skc_dport").Bswap(),
			}
			if *count {
				counts.Inc(c, parts...)
				return
			}
			events.Emit(c, func(e *retransmit, b *action.Bind) {
				b.Set(&e.Nsecs, c.Nsecs())
				b.Set(&e.Flow, action.Key(parts...))
				b.Set(&e.PID, c.PID())
				b.Set(&e.State, sk.Member("__sk_common.skc_state"))
				more(e, b)
			})
		})
	}
	p.On(probe.Tracepoint{Group: "tcp", Name: "tcp_retransmit_skb"}, func(c *action.Ctx) {
		note(c, c.Field("skaddr").PtrTo("struct sock", false), func(e *retransmit, b *action.Bind) {
			// A segment's control block, struct tcp_skb_cb, begins with seq.
			b.Set(&e.Seq, c.Field("skbaddr").PtrTo("struct sk_buff", false).Addr("cb").Load(0,
				ir.IntType(4, false)))
		})
	})
	if *probes && !*count {
		p.On(probe.Fentry{Symbol: "tcp_send_loss_probe"}, func(c *action.Ctx) {
			note(c, c.Arg(0).PtrTo("struct sock", false), func(e *retransmit, b *action.Bind) {
				b.Set(&e.LossProbe, true)
			})
		})
	}

	return t.Run(ctx, stdout, "Tracing TCP retransmits", func(r *tool.Run) error {
		if *count {
			return showCounts(r, counts)
		}
		tab := r.Table("TIME %-8s", "PID %-7d", "IP %-2d", "LADDR:LPORT %-20s", "T> %-2s",
			"RADDR:RPORT %-20s", "STATE %-12s", "SEQ %-10d")
		tab.Show("SEQ", *sequence).Header()
		return tool.Each(r, events, func(e *retransmit) error {
			kind := "R>"
			if e.LossProbe {
				kind = "L>"
			}
			return tab.Row(r.Time(e.Nsecs).Format("15:04:05"), e.PID,
				tool.IPVersion(e.Flow.Remote.Addr().As16()),
				place(e.Flow.Local, e.Flow.LPort), kind, place(e.Flow.Remote, e.Flow.RPort), state(e.State),
				e.Seq)
		})
	}, p)
}

func showCounts(r *tool.Run, counts *action.Counter[flow]) error {
	tab := r.Table("LADDR:LPORT %-25s", "RADDR:RPORT %-25s", "RETRANSMITS %11d")
	return tool.EachCounts(r, counts, func(entries []mapx.Entry[flow, uint64]) error {
		slices.SortStableFunc(entries, func(a, b mapx.Entry[flow, uint64]) int {
			return cmp.Compare(a.Value, b.Value)
		})
		r.Printf("\n")
		tab.Header()
		for _, e := range entries {
			tab.Row(place(e.Key.Local, e.Key.LPort), place(e.Key.Remote, e.Key.RPort), e.Value)
		}
		return nil
	})
}

func place(addr tool.SockAddr, port uint16) string {
	return netip.AddrPortFrom(addr.Addr(), port).String()
}

func state(n uint32) string {
	if n > 0 && int(n) < len(states) {
		return states[n]
	}
	return strconv.Itoa(int(n))
}
