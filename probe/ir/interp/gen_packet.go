package interp

import (
	"encoding/binary"
	"unsafe"

	"github.com/borescope/borescope/probe/ir"
)

// packet emits what Machine.Packet has of a packet.
func (r *run) packet(s *ir.Stmt) {
	skb := r.expr(s.Key).n
	if skb == 0 {
		return
	}
	b := append([]byte(nil), r.expr(s.X).b...)
	data := make([]byte, binary.LittleEndian.Uint32(b[unsafe.Offsetof(ir.PacketHead{}.Captured):]))
	if r.Packet != nil {
		copy(data, r.Packet(skb, len(data)))
	}
	r.Events[s.Map] = append(r.Events[s.Map], append(b, data...))
}
