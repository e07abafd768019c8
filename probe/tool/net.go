package tool

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/action"
)

// Ports declares a flag for a list of ports: "80,443". See FilterPorts.
func (t *Tool) Ports(name, usage string) *[]int {
	list := new([]int)
	t.Func(name, "PORTS", usage, func(text string) error {
		*list = nil
		for word := range strings.SplitSeq(text, ",") {
			port, err := strconv.ParseUint(word, 10, 16)
			if err != nil {
				return fmt.Errorf("%q is not a port", word)
			}
			*list = append(*list, int(port))
		}
		return nil
	})
	return list
}

// FilterPorts ends an action unless a port, in the host's byte order, is in the list; an
// empty list means any port.
func FilterPorts(c *action.Ctx, port action.Int, list []int) {
	if len(list) == 0 {
		return
	}
	one := port.Eq(list[0])
	for _, p := range list[1:] {
		one = one.Or(port.Eq(p))
	}
	c.ReturnUnless(one)
}

// IPVersions is the choice of versions of IP by -4 and -6.
type IPVersions struct{ only4, only6 *bool }

// IPVersions declares -4 and -6. Neither and both mean both versions.
func (t *Tool) IPVersions() *IPVersions {
	return &IPVersions{t.Bool("4,ipv4", "only IPv4"), t.Bool("6,ipv6", "only IPv6")}
}

// v4 reports whether IPv4 is chosen.
func (v *IPVersions) v4() bool { return *v.only4 || !*v.only6 }

// v6 reports whether IPv6 is chosen.
func (v *IPVersions) v6() bool { return *v.only6 || !*v.only4 }

// Filter ends an action unless a socket's family, AF_INET or AF_INET6, is of a chosen
// version.
func (v *IPVersions) Filter(c *action.Ctx, family action.Int) {
	switch {
	case !v.v6():
		c.ReturnUnless(family.Eq(familyIPv4))
	case !v.v4():
		c.ReturnUnless(family.Eq(familyIPv6))
	}
}

// AF_INET and AF_INET6 on Linux.
const familyIPv4, familyIPv6 = 2, 10

// Addr returns an address that the kernel stores as IPv6. One that is mapped from IPv4 is
// returned as IPv4.
func Addr(a [16]byte) netip.Addr { return netip.AddrFrom16(a).Unmap() }

// SockAddr is the address of a socket, as SockAddrs puts it into a map's key or an event. An
// IPv4 address is mapped into IPv6.
type SockAddr struct {
	First [12]byte
	Last  [4]byte
}

// Addr returns the address, as IPv4 if it is mapped from IPv4.
func (a SockAddr) Addr() netip.Addr { return Addr([16]byte(append(a.First[:], a.Last[:]...))) }

// SockAddrs calls use to record the statements of an action that take the local and the
// remote address, both as SockAddr, of sk, a pointer to struct sock. The action does nothing
// for a socket of another family than the wanted versions of IP.
func SockAddrs(c *action.Ctx, sk action.Ptr, wanted *IPVersions,
	use func(local, remote action.Tuple),
) {
	family := c.Let(sk.Member("__sk_common.skc_family"))
	mapped := func(member string) action.Tuple {
		return action.Key(action.Bytes([]byte{10: 0xff, 11: 0xff}), sk.Addr(member).Bytes(4))
	}
	whole := func(member string) action.Tuple {
		return action.Key(sk.Addr(member).Bytes(12), sk.Addr(member+".in6_u.u6_addr8[12]").Bytes(4))
	}
	if wanted.v4() {
		c.If(family.Eq(familyIPv4), func() {
			use(mapped("__sk_common.skc_rcv_saddr"), mapped("__sk_common.skc_daddr"))
		})
	}
	if wanted.v6() {
		c.If(family.Eq(familyIPv6), func() {
			use(whole("__sk_common.skc_v6_rcv_saddr"), whole("__sk_common.skc_v6_daddr"))
		})
	}
}

// IPVersion returns the version of an address that the kernel stores as IPv6: 4 or 6.
func IPVersion(a [16]byte) int {
	if Addr(a).Is4() {
		return 4
	}
	return 6
}
