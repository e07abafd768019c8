package main

import (
	"net/netip"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

const familyIPv4 = 2 // AF_INET

// function emits connections at the one kernel function that opens them, which is not called
// at other changes of a connection's state.
func (o *options) function(m *maps) *action.Program {
	p := action.NewProgram("tcpconnect")
	// Not fentry, which costs the tool a third more memory and a longer start.
	p.On(probe.Kprobe{Symbol: "tcp_connect"}, func(c *action.Ctx) {
		sk := c.Arg(0).Ptr()
		family, dport := c.Let(sk.Member("__sk_common.skc_family")),
			c.Let(sk.Member("__sk_common.skc_dport").Bswap())
		o.filter(c, family, dport)
		emit := func(addresses func(e *connect, b *action.Bind)) {
			m.events.Emit(c, func(e *connect, b *action.Bind) {
				b.Set(&e.Nsecs, c.Nsecs())
				b.Set(&e.PID, c.PID())
				b.Set(&e.UID, c.UID())
				b.Set(&e.SPort, sk.Member("__sk_common.skc_num"))
				b.Set(&e.DPort, dport)
				b.Set(&e.Comm, c.Comm())
				addresses(e, b)
			})
		}
		c.If(family.Eq(familyIPv4), func() {
			emit(func(e *connect, b *action.Bind) {
				b.Set(&e.SAddr4, sk.Addr("__sk_common.skc_rcv_saddr").Bytes(4))
				b.Set(&e.DAddr4, sk.Addr("__sk_common.skc_daddr").Bytes(4))
			})
		}, func() {
			emit(func(e *connect, b *action.Bind) {
				b.Set(&e.SAddr, sk.Addr("__sk_common.skc_v6_rcv_saddr").Bytes(16))
				b.Set(&e.DAddr, sk.Addr("__sk_common.skc_v6_daddr").Bytes(16))
			})
		})
	})
	return p
}

// addrs returns the local and the remote address.
func (e *connect) addrs() (local, remote netip.Addr) {
	if e.SAddr4 != [4]byte{} || e.DAddr4 != [4]byte{} {
		return netip.AddrFrom4(e.SAddr4), netip.AddrFrom4(e.DAddr4)
	}
	return tool.Addr(e.SAddr), tool.Addr(e.DAddr)
}
