package tool

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/action"
)

// Ports declares a flag with a list of ports: "80,443". See FilterPorts.
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

// FilterPorts ends an action unless a port, in the host's byte order, is one of
// the list; an empty list is all of them.
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

// IPVersions are the versions of IP that -4 and -6 leave.
type IPVersions struct{ only4, only6 *bool }

// IPVersions declares -4 and -6; neither and both are all.
func (t *Tool) IPVersions() *IPVersions {
	return &IPVersions{t.Bool("4,ipv4", "only IPv4"), t.Bool("6,ipv6", "only IPv6")}
}

// v4 says whether IPv4 is wanted.
func (v *IPVersions) v4() bool { return *v.only4 || !*v.only6 }

// v6 says whether IPv6 is wanted.
func (v *IPVersions) v6() bool { return *v.only6 || !*v.only4 }

// Filter ends an action unless a socket's family, AF_INET or AF_INET6, is of a
// version that is wanted.
func (v *IPVersions) Filter(c *action.Ctx, family action.Int) {
	switch {
	case !v.v6():
		c.ReturnUnless(family.Eq(familyIPv4))
	case !v.v4():
		c.ReturnUnless(family.Eq(familyIPv6))
	}
}

// AF_INET and AF_INET6 of Linux.
const familyIPv4, familyIPv6 = 2, 10

// Addr is an address that the kernel keeps as IPv6: one of IPv4 as it is written.
func Addr(a [16]byte) netip.Addr { return netip.AddrFrom16(a).Unmap() }

// SockAddr is an address of a socket, as SockAddrs gives it to a map's key or an
// event: one of IPv4 is mapped into IPv6.
type SockAddr struct {
	First [12]byte
	Last  [4]byte
}

// Addr is the address, one of IPv4 as it is written.
func (a SockAddr) Addr() netip.Addr { return Addr([16]byte(append(a.First[:], a.Last[:]...))) }

// SockAddrs has an action do what use records with the local and the remote
// address, both SockAddr, of a pointer to struct sock. It does nothing for a
// socket that is of no version of IP that is wanted.
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

// IPVersion is 4 or 6, of such an address.
func IPVersion(a [16]byte) int {
	if Addr(a).Is4() {
		return 4
	}
	return 6
}
