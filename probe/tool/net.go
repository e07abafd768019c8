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

// Addr is an address that the kernel keeps as IPv6: one of IPv4 as it is written.
func Addr(a [16]byte) netip.Addr { return netip.AddrFrom16(a).Unmap() }

// IPVersion is 4 or 6, of such an address.
func IPVersion(a [16]byte) int {
	if Addr(a).Is4() {
		return 4
	}
	return 6
}
