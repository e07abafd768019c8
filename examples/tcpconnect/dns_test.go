package main

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
)

// dnsName is a name as DNS writes it.
func dnsName(name string) (b []byte) {
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0)
}

// dnsAnswer is the answer to a question for a name, by an alias.
func dnsAnswer(id uint16, name string, addrs ...netip.Addr) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	b = append(b, 0x81, 0x80, 0, 1, 0, byte(1+len(addrs)), 0, 0, 0, 0)
	b = append(append(b, dnsName(name)...), 0, 1, 0, 1)
	record := func(typ byte, data []byte) {
		b = append(b, 0xc0, 12, 0, typ, 0, 1, 0, 0, 0, 60, 0, byte(len(data)))
		b = append(b, data...)
	}
	record(5, dnsName("alias."+name))
	for _, a := range addrs {
		record(map[bool]byte{true: 1, false: 28}[a.Is4()], a.AsSlice())
	}
	return b
}

func TestParseAnswer(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	b := dnsAnswer(7, "www.example.org", four, six)
	name, addrs := parseAnswer(b)
	if name != "www.example.org" || len(addrs) != 2 || addrs[0] != four || addrs[1] != six {
		t.Errorf("%q %v", name, addrs)
	}
	for n := range b { // cut off anywhere
		if name, addrs := parseAnswer(b[:n]); len(addrs) > 1 || name != "" && name != "www.example.org" {
			t.Errorf("%d bytes: %q %v", n, name, addrs)
		}
	}
	for i := range b { // or torn
		torn := append([]byte(nil), b...)
		torn[i] ^= 0xff
		parseAnswer(torn)
	}
}
