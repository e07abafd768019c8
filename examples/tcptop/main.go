// Tcptop shows how much each TCP connection sends and receives, once a second,
// those with the most first.
//
//	# tcptop
//	Tracing TCP traffic... Hit Ctrl-C to end.
//	19:20:04 loadavg: 18.54 13.50 8.38 15/234 28753
//
//	PID     COMM         LADDR                 RADDR                  RX_KB  TX_KB
//	28746   tcptop.test  127.0.0.1:51782       127.0.0.1:39605           23     64
//
// See README.md.
package main

import (
	"context"
	"io"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("tcptop", run)) }

// conn is a connection as one process uses it, in one direction.
type conn struct {
	PID           uint32
	LPort, RPort  uint16
	Local, Remote tool.SockAddr
	Comm          action.Comm
	Sent          uint32 // 0 or 1
}

const (
	protocolTCP = 6 // IPPROTO_TCP
	peek        = 2 // MSG_PEEK: what is read stays, to be read again
)

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("tcptop", "Show what is sent and received over TCP, by process and connection.",
		"tcptop -C 1 10", "ten tables, one each second",
		"tcptop -p 181", "of process 181")
	pid := t.PID()
	silent := t.Bool("S,nosummary", "without the line with the load")
	versions := t.IPVersions()
	t.Redraw()
	t.Interval(time.Second)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	bytes := action.NewSum[conn]("bytes", 1<<14)
	bytes.Flip()
	add := func(c *action.Ctx, sk action.Ptr, sent int, n action.Int) {
		c.ReturnUnless(n.Gt(0))
		port, peer := sk.Member("__sk_common.skc_num"), sk.Member("__sk_common.skc_dport").Bswap()
		tool.SockAddrs(c, sk, versions, func(local, remote action.Tuple) {
			bytes.Observe(c, n, c.PID(), port, peer, local, remote, c.Comm(), sent)
		})
	}
	functions := action.NewProgram("tcptop")
	sending := action.NewPair[uint64]("sending", 0)
	for _, name := range slices.Compact([]string{"tcp_sendmsg", t.Symbol("tcp_sendpage", "tcp_sendmsg")}) { // the latter before Linux 6.5
		functions.On(probe.Fentry{Symbol: name}, func(c *action.Ctx) {
			tool.FilterPID(c, *pid)
			sending.Enter(c, c.Arg(0).As(ir.Uint64Type()))
		})
		functions.On(probe.Fexit{Symbol: name}, func(c *action.Ctx) {
			tool.FilterPID(c, *pid)
			sending.Leave(c, func(sk action.Int) { add(c, sk.PtrTo("struct sock", false), 1, c.Ret()) })
		})
	}
	functions.On(probe.Fentry{Symbol: "tcp_cleanup_rbuf"}, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		add(c, c.Arg(0).Ptr(), 0, c.Arg(1))
	})
	sockets := action.NewProgram("tcptop") // Linux 6.3
	for sent, name := range []string{"sock_recv_length", "sock_send_length"} {
		sockets.On(probe.Tracepoint{Group: "sock", Name: name}, func(c *action.Ctx) {
			tool.FilterPID(c, *pid)
			c.ReturnUnless(c.Field("protocol").Eq(protocolTCP).And(c.Field("flags").And(peek).Eq(0)))
			add(c, c.Field("sk").PtrTo("struct sock", false), sent, c.Field("ret"))
		})
	}

	return t.Run(ctx, stdout, "Tracing TCP traffic", func(s *tool.Session) error {
		tab := s.Table("PID %-7d", "COMM %-12.12s", "LADDR %-21s", "RADDR %-21s", "RX_KB %6d", "TX_KB %6d")
		read, err := tool.TakeSums(s, bytes)
		if err != nil {
			return err
		}
		return s.Every(func() error {
			sums, err := read()
			if err == nil && !*silent {
				err = s.Loadavg()
			}
			rows := tool.Rows(sums, 2, func(k *conn) *uint32 { return &k.Sent })
			tab.Header()
			for _, k := range tool.Largest(rows, func(n []int64) int64 { return n[0] + n[1] }) {
				local, remote := netip.AddrPortFrom(k.Local.Addr(), k.LPort), netip.AddrPortFrom(k.Remote.Addr(), k.RPort)
				tab.Row(k.PID, k.Comm, local, remote, rows[k][0]/1024, rows[k][1]/1024)
			}
			s.Printf("\n")
			return err
		})
	}, functions, sockets)
}
