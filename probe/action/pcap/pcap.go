// Package pcap writes the packets of an action.Packets to a file that tcpdump and
// Wireshark read: pcap with times in nanoseconds, as draft-ietf-opsawg-pcap has it.
//
//	w, err := pcap.NewWriter(file, pcap.Ethernet, time.Time{})
//	…
//	for {
//		if _, err := packets.Read(ctx, &p); err != nil {
//			break
//		}
//		if err := w.Write(&p); err != nil {
//			return err
//		}
//	}
//
// It needs neither privileges nor a kernel, and Write allocates nothing.
package pcap

import (
	"fmt"
	"io"
	"time"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/pcap"
	"github.com/borescope/borescope/probe/action"
)

// LinkType is what packets begin with, by its number in the list of link types
// (LINKTYPE_…, https://www.tcpdump.org/linktypes.html).
type LinkType uint32

// The types of links that the kernel's packets have most often.
const (
	Ethernet LinkType = pcap.Ethernet
	IP       LinkType = pcap.IP // IPv4 or IPv6
)

// Writer writes packets. It is for one goroutine at a time.
type Writer struct {
	w    io.Writer
	zero int64
	head [16]byte
}

// NewWriter writes a file's header to w. zero is when CLOCK_MONOTONIC was 0 on the
// machine that the packets are from; the zero Time is for packets of this machine. Each
// packet is written to w in two calls; buffering and closing are the caller's.
func NewWriter(w io.Writer, link LinkType, zero time.Time) (*Writer, error) {
	if zero.IsZero() {
		zero = kernel.MonotonicZero()
	}
	if _, err := w.Write(pcap.AppendHeader(nil, uint32(link))); err != nil {
		return nil, fmt.Errorf("write pcap header: %w", err)
	}
	return &Writer{w: w, zero: zero.UnixNano()}, nil
}

// Write writes a packet, which must begin with a header of the file's link type: see
// action.Packet.Skip.
func (f *Writer) Write(p *action.Packet) error {
	head := pcap.AppendRecord(f.head[:0], uint64(f.zero)+p.Time, len(p.Data), p.Len)
	for _, b := range [][]byte{head, p.Data} {
		if _, err := f.w.Write(b); err != nil {
			return fmt.Errorf("write packet: %w", err)
		}
	}
	return nil
}
