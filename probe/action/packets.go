package action

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
	"unsafe"

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
	return &Packets{&ir.Map{
		Name: name, Kind: ir.MapPerf, Entries: size,
		Value: ir.TypeOf[ir.PacketHead](), Pos: callerPos(),
	}}
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
