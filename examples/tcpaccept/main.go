// Tcpaccept prints every TCP connection that a program on this machine accepts.
//
//	# tcpaccept -replay testdata/accepts
//	Tracing TCP accepts... Hit Ctrl-C to end.
//	PID     COMM         IP RADDR            RPORT LADDR            LPORT
//	154     examples_tcp 4  127.0.0.1        56668 127.0.0.1        18423
//	154     examples_tcp 4  127.0.0.1        56674 127.0.0.1        18423
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

func main() { os.Exit(tool.Main("tcpaccept", run)) }

// accepted is a connection that accept has returned. The addresses of an IPv4 socket are in
// LocalV4 and RemoteV4.
type accepted struct {
	Nsecs        uint64
	PID          uint32
	Family       uint16
	LPort, RPort uint16
	LocalV4      [4]byte
	RemoteV4     [4]byte
	Local        [16]byte
	Remote       [16]byte
	Comm         action.Comm
}

const familyIPv4 = 2 // AF_INET

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("tcpaccept",
		"Trace TCP connections that are accepted: who is connected to, by whom.",
		"tcpaccept -T", "with the time of day",
		"tcpaccept -P 22,80", "on these ports of this machine")
	pid := t.PID()
	ports := t.Ports("P,port", "only these ports")
	clock := t.Bool("T,time", "with the time of day")
	times := t.Bool("t,timestamp", "with seconds since the first event")
	versions := t.IPVersions()
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	events := action.NewEvents[accepted]("accepts", 0)
	program := func(target probe.Target) *action.Program {
		p := action.NewProgram("tcpaccept")
		p.On(target, func(c *action.Ctx) {
			tool.FilterPID(c, *pid)
			sk := c.Let(c.Ret()).PtrTo("struct sock", false)
			c.ReturnUnless(sk.Ne(0))
			versions.Filter(c, sk.Member("__sk_common.skc_family"))
			lport := sk.Member("__sk_common.skc_num")
			tool.FilterPorts(c, lport, *ports)
			events.Emit(c, func(e *accepted, b *action.Bind) {
				b.Set(&e.Nsecs, c.Nsecs())
				b.Set(&e.PID, c.PID())
				b.Set(&e.Family, sk.Member("__sk_common.skc_family"))
				b.Set(&e.LPort, lport)
				b.Set(&e.RPort, sk.Member("__sk_common.skc_dport").Bswap())
				b.Set(&e.LocalV4, sk.Addr("__sk_common.skc_rcv_saddr").Bytes(4))
				b.Set(&e.RemoteV4, sk.Addr("__sk_common.skc_daddr").Bytes(4))
				b.Set(&e.Local, sk.Addr("__sk_common.skc_v6_rcv_saddr").Bytes(16))
				b.Set(&e.Remote, sk.Addr("__sk_common.skc_v6_daddr").Bytes(16))
				b.Set(&e.Comm, c.Comm())
			})
		})
		return p
	}

	return t.Run(ctx, stdout, "Tracing TCP accepts", func(r *tool.Run) error {
		tab := r.Table("TIME %-8s", "TIME(s) %-9.3f", "PID %-7d", "COMM %-12.12s", "IP %-2d",
			"RADDR %-16s", "RPORT %-5d", "LADDR %-16s", "LPORT %d")
		tab.Show("TIME", *clock).Show("TIME(s)", *times).Header()
		return tool.Each(r, events, func(e *accepted) error {
			local, remote := e.Local, e.Remote
			if e.Family == familyIPv4 {
				local, remote = mapped(e.LocalV4), mapped(e.RemoteV4)
			}
			return tab.Row(r.Time(e.Nsecs).Format("15:04:05"), r.Seconds(e.Nsecs), e.PID, e.Comm,
				tool.IPVersion(remote), tool.Addr(remote), e.RPort, tool.Addr(local), e.LPort)
		})
	}, program(probe.Fexit{Symbol: "inet_csk_accept"}),
		program(probe.Kretprobe{Symbol: "inet_csk_accept"}))
}

// mapped returns an IPv4 address mapped into IPv6.
func mapped(v4 [4]byte) [16]byte {
	return [16]byte{10: 0xff, 11: 0xff, 12: v4[0], 13: v4[1], 14: v4[2], 15: v4[3]}
}
