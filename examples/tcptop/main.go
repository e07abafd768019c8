// Tcptop prints the bytes that each TCP connection sends and receives, once a second, the
// busiest connections first.
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
	peek        = 2 // MSG_PEEK: the data stays in the queue, to be read again
)

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid      *int
	silent   *bool
	versions *tool.IPVersions
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	bytes := action.NewSum[conn]("bytes", 1<<14)
	bytes.Flip()
	return o.Run(ctx, stdout, "Tracing TCP traffic", func(r *tool.Run) error {
		return o.show(r, bytes)
	}, o.functions(bytes), o.sockets(bytes))
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("tcptop", "Show what is sent and received over TCP, by process and connection.",
		"tcptop -C 1 10", "ten tables, one each second",
		"tcptop -p 181", "of process 181")
	o := &options{t, t.PID(), t.Bool("S,nosummary", "without the line with the load"), t.IPVersions()}
	t.Redraw()
	t.Interval(time.Second)
	return o, t.Parse(args, stdout)
}

// functions counts at the kernel's functions.
func (o *options) functions(bytes *action.Aggregate[conn]) *action.Program {
	p := action.NewProgram("tcptop")
	sending := action.NewPair[uint64]("sending", 0)
	// tcp_sendpage exists before Linux 6.5.
	for _, name := range slices.Compact([]string{
		"tcp_sendmsg",
		o.Symbol("tcp_sendpage", "tcp_sendmsg"),
	}) {
		p.On(probe.Fentry{Symbol: name}, func(c *action.Ctx) {
			tool.FilterPID(c, *o.pid)
			sending.Enter(c, c.Arg(0).As(ir.Uint64Type()))
		})
		p.On(probe.Fexit{Symbol: name}, func(c *action.Ctx) {
			tool.FilterPID(c, *o.pid)
			sending.Leave(c, func(sk action.Int) {
				o.add(c, bytes, sk.PtrTo("struct sock", false), 1, c.Ret())
			})
		})
	}
	p.On(probe.Fentry{Symbol: "tcp_cleanup_rbuf"}, func(c *action.Ctx) {
		tool.FilterPID(c, *o.pid)
		o.add(c, bytes, c.Arg(0).Ptr(), 0, c.Arg(1))
	})
	return p
}

// sockets counts at the tracepoints that exist since Linux 6.3.
func (o *options) sockets(bytes *action.Aggregate[conn]) *action.Program {
	p := action.NewProgram("tcptop")
	for sent, name := range []string{"sock_recv_length", "sock_send_length"} {
		p.On(probe.Tracepoint{Group: "sock", Name: name}, func(c *action.Ctx) {
			tool.FilterPID(c, *o.pid)
			c.ReturnUnless(c.Field("protocol").Eq(protocolTCP).And(c.Field("flags").And(peek).Eq(0)))
			o.add(c, bytes, c.Field("sk").PtrTo("struct sock", false), sent, c.Field("ret"))
		})
	}
	return p
}

// add makes an action add the n bytes that a socket has sent or received.
func (o *options) add(c *action.Ctx, bytes *action.Aggregate[conn], sk action.Ptr, sent int,
	n action.Int,
) {
	c.ReturnUnless(n.Gt(0))
	port, peer := sk.Member("__sk_common.skc_num"), sk.Member("__sk_common.skc_dport").Bswap()
	tool.SockAddrs(c, sk, o.versions, func(local, remote action.Tuple) {
		bytes.Observe(c, n, c.PID(), port, peer, local, remote, c.Comm(), sent)
	})
}

// show prints the connections of every interval.
func (o *options) show(r *tool.Run, bytes *action.Aggregate[conn]) error {
	tab := r.Table("PID %-7d", "COMM %-12.12s", "LADDR %-21s", "RADDR %-21s", "RX_KB %6d", "TX_KB %6d")
	return tool.EachSums(r, bytes, func(sums map[conn]int64) error {
		var err error
		if !*o.silent {
			err = r.Loadavg()
		}
		rows := tool.Rows(sums, 2, func(k *conn) *uint32 { return &k.Sent })
		tab.Header()
		for _, k := range tool.Largest(rows, func(n []int64) int64 { return n[0] + n[1] }) {
			local, remote := netip.AddrPortFrom(k.Local.Addr(), k.LPort),
				netip.AddrPortFrom(k.Remote.Addr(), k.RPort)
			tab.Row(k.PID, k.Comm, local, remote, rows[k][0]/1024, rows[k][1]/1024)
		}
		r.Printf("\n")
		return err
	})
}
