// Package pcap has the layout of pcap files with times in nanoseconds (draft-ietf-opsawg-pcap).
package pcap

import "encoding/binary"

// The types of links that the kernel's packets have most often, by their numbers in the list of link types
// (LINKTYPE_…, https://www.tcpdump.org/linktypes.html).
const (
	Ethernet = 1
	IP       = 101 // IPv4 or IPv6
)

// AppendHeader appends the header of a file whose packets begin with what the link type says.
func AppendHeader(b []byte, link uint32) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, 0xa1b23c4d) // times are in nanoseconds
	b = le.AppendUint32(b, 2|4<<16)    // version 2.4
	b = append(b, make([]byte, 8)...)  // UTC
	b = le.AppendUint32(b, 256<<10)    // the largest packet, as in tcpdump's files
	return le.AppendUint32(b, link)    // the link type
}

// AppendRecord appends the head of a packet, which its captured bytes follow. t is in nanoseconds since 1970.
func AppendRecord(b []byte, t uint64, captured, length int) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(t/1e9))
	b = le.AppendUint32(b, uint32(t%1e9))
	b = le.AppendUint32(b, uint32(captured))
	return le.AppendUint32(b, uint32(length))
}
