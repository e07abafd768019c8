package action

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
	"unsafe"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// Packets is a stream of network packets, whole or truncated, over a perf buffer. It is what
// bpftrace's skboutput writes to a file. Packets that find no room in it are counted by CPU.
// The program needs a GPL-compatible licence.
type Packets struct{ m *ir.Map }

// NewPackets returns a stream over perf buffers, one for each CPU, of size bytes each (0:
// ir.DefaultBuffer), rounded up to a power of two.
func NewPackets(name string, size int) *Packets {
	return &Packets{&ir.Map{Name: name, Kind: ir.MapPerf, Entries: size, Value: ir.TypeOf[ir.PacketHead](), Pos: callerPos()}}
}

// Map returns the IR's map. Its records are a head (CLOCK_MONOTONIC in 8 bytes, the packet's
// length and the captured length in 4 bytes each) and the captured bytes.
func (p *Packets) Map() *ir.Map { return p.m }

// Emit emits the packet of a struct sk_buff, which must be an argument of the probe. It
// captures the first most bytes from skb->data on, also those outside of the buffer's linear
// part. If most is nil or greater than ir.MaxPacket, it is ir.MaxPacket. What skb->data
// points to depends on the probe: the Ethernet header where packets leave (net_dev_queue),
// the byte after it where they arrive (netif_receive_skb).
//
// The kernel has the helper for programs whose arguments it types (5.5): fentry, fexit, and
// tracepoints with probe.Options.PreferBTF.
func (p *Packets) Emit(c *Ctx, skb Ptr, most any) {
	s := &ir.Stmt{Op: ir.StmtPacket, Map: p.m, Key: skb.Expr()}
	if most != nil {
		s.X = lift(most)
	}
	c.Do(s)
}

// Where a packet's head has the captured length, and its size.
const (
	packetCaptured = int(unsafe.Offsetof(ir.PacketHead{}.Captured))
	packetHeadSize = int(unsafe.Sizeof(ir.PacketHead{}))
)

// Packet is a captured packet.
type Packet struct {
	// Time is CLOCK_MONOTONIC in nanoseconds.
	Time uint64
	// CPU is the CPU that the probe fired on.
	CPU int
	// Len is the length of the whole packet in bytes. Data may hold only its beginning.
	Len int
	// Data holds the captured bytes. They are valid until the next Read.
	Data []byte
}

// Skip removes the packet's first n bytes, such as the 14 of an Ethernet header.
func (p *Packet) Skip(n int) {
	p.Data, p.Len = p.Data[min(n, len(p.Data)):], max(p.Len-n, 0)
}

// Open opens the stream of packets, ordered by time over all CPUs: each packet is held back
// for a millisecond, or until the context ends. The reader owns the Data of the packets it
// returns. The caller closes the reader.
func (p *Packets) Open(s bpf.Reader) (*EventReader[Packet], error) {
	in, err := bpf.OpenStream(s, p.m, time.Millisecond)
	if err != nil {
		return nil, fmt.Errorf("packets %s: %w", p.m.Name, err)
	}
	return &EventReader[Packet]{in: in, decode: decodePacket}, nil
}

func decodePacket(rec *mapx.Record, p *Packet) error {
	le, b := binary.LittleEndian, rec.Data
	if len(b) < packetHeadSize || int64(le.Uint32(b[packetCaptured:])) > int64(len(b)-packetHeadSize) {
		return fmt.Errorf("packet's record of %d bytes: %w", len(b), io.ErrUnexpectedEOF)
	}
	*p = Packet{
		Time: le.Uint64(b), CPU: rec.CPU, Len: int(le.Uint32(b[8:])),
		Data: b[packetHeadSize:][:le.Uint32(b[packetCaptured:])],
	}
	return nil
}

// LinkType is the type of the header that packets begin with, as pcap files number it
// (LINKTYPE_…).
type LinkType uint32

// The link types.
const (
	LinkEthernet LinkType = 1
	LinkIP       LinkType = 101 // IPv4 or IPv6
)

// Pcap writes packets in the format that tcpdump and Wireshark read (pcap, with
// nanoseconds). It is used by one goroutine at a time.
type Pcap struct {
	w    io.Writer
	zero int64
	head [16]byte
}

// NewPcap writes a file's header to w. zero is the time at which CLOCK_MONOTONIC was 0 on the
// machine that captured the packets; the zero Time stands for this machine. Each packet is
// written to w in two calls. The caller buffers and closes w.
func NewPcap(w io.Writer, link LinkType, zero time.Time) (*Pcap, error) {
	if zero.IsZero() {
		zero = kernel.MonotonicZero()
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xa1b23c4d) // times are in nanoseconds
	b = le.AppendUint32(b, 2|4<<16)       // version 2.4
	b = append(b, make([]byte, 8)...)     // UTC
	b = le.AppendUint32(b, 256<<10)       // the largest packet, as in tcpdump's files
	b = le.AppendUint32(b, uint32(link))  // the link type
	if _, err := w.Write(b); err != nil {
		return nil, fmt.Errorf("write pcap header: %w", err)
	}
	return &Pcap{w: w, zero: zero.UnixNano()}, nil
}

// Write writes a packet, which must begin with a header of NewPcap's link type: see
// Packet.Skip.
func (f *Pcap) Write(p *Packet) error {
	le, t := binary.LittleEndian, uint64(f.zero)+p.Time
	le.PutUint32(f.head[0:], uint32(t/1e9))
	le.PutUint32(f.head[4:], uint32(t%1e9))
	le.PutUint32(f.head[8:], uint32(len(p.Data)))
	le.PutUint32(f.head[12:], uint32(p.Len))
	for _, b := range [][]byte{f.head[:], p.Data} {
		if _, err := f.w.Write(b); err != nil {
			return fmt.Errorf("write packet: %w", err)
		}
	}
	return nil
}
