package main

import (
	"encoding/binary"
	"net/netip"

	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
)

// answerSize is the number of bytes of a name server's answer that are read: the limit of UDP
// without extensions.
const answerSize = 512

// answers makes an action call use with the payload of a packet and the size of the payload's
// linear part, if the packet arrives by UDP from port 53, the name server's, and has answers.
func answers(c *action.Ctx, skb action.Ptr, use func(payload action.Ptr, size action.Int)) {
	const ethIPv4, ethIPv6, protocolUDP, domain = 0x0800, 0x86dd, 17, 53
	u8, u16 := ir.IntType(1, false), ir.IntType(2, false)
	data := skb.Member("data").Ptr()
	proto := c.Let(skb.Member("protocol").Bswap())
	header := c.NewVar(40) // IPv6's, without extensions
	c.If(proto.Eq(ethIPv4), func() {
		c.ReturnUnless(data.Load(9, u8).Eq(protocolUDP))
		header.Set(data.Load(0, u8).And(15).Mul(4))
	}, func() {
		c.ReturnUnless(proto.Eq(ethIPv6).And(data.Load(6, u8).Eq(protocolUDP)))
	})
	udp := data.Int().Add(header.Int()).Ptr()
	c.ReturnUnless(udp.Load(0, u16).Bswap().Eq(domain))
	payload := udp.Int().Add(8).Ptr()
	isAnswer, number := payload.Load(2, u8).And(0x80), payload.Load(6, u16)
	c.ReturnUnless(isAnswer.Ne(0).And(number.Ne(0)))
	linear := skb.Member("len").Sub(skb.Member("data_len"))
	use(payload, linear.Sub(header.Int()).Sub(8))
}

// parseAnswer parses an answer to one question (RFC 1035, section 4). It returns the name,
// and the addresses that were found for it. Records that are cut off are left out.
func parseAnswer(b []byte) (name string, addrs []netip.Addr) {
	const header, typeA, typeAAAA = 12, 1, 28
	if len(b) < header || binary.BigEndian.Uint16(b[4:]) != 1 {
		return "", nil
	}
	number := int(binary.BigEndian.Uint16(b[6:]))
	name, b = cutName(b[header:])
	if len(b) < 4 {
		return "", nil
	}
	b = b[4:] // the question's type and class
	for range number {
		_, b = cutName(b)
		if len(b) < 10 {
			break
		}
		typ, size := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[8:]))
		b = b[10:]
		if len(b) < size {
			break
		}
		if a, ok := netip.AddrFromSlice(b[:size]); ok && (typ == typeA || typ == typeAAAA) {
			addrs = append(addrs, a)
		}
		b = b[size:]
	}
	return name, addrs
}

// cutName reads a name, "" if it is only a pointer to another one. It returns the bytes after
// the name, nil if it is cut off.
func cutName(b []byte) (name string, rest []byte) {
	for len(b) > 0 {
		n := int(b[0])
		switch {
		case n == 0:
			return name, b[1:]
		case n >= 0xc0: // a pointer ends the name
			return name, b[min(2, len(b)):]
		case len(b) < 1+n:
			return "", nil
		case name != "":
			name += "."
		}
		name += string(b[1 : 1+n])
		b = b[1+n:]
	}
	return "", nil
}
