package codegen

import (
	"unsafe"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// These are the offset of the captured length in a packet's head, and the size of the head.
const (
	packetCaptured = int(unsafe.Offsetof(ir.PacketHead{}.Captured))
	packetHeadSize = int32(unsafe.Sizeof(ir.PacketHead{}))
)

// emitPacket generates a call of bpf_skb_output(skb, map, captured<<32 | BPF_F_CURRENT_CPU,
// head, size).
func (g *statements) emitPacket(s *typed.Stmt) {
	root, off := pointerRoot(s.Key, 0)
	if !g.isArgument(root, off) {
		g.fail("%s: %w", s.Op, check.ErrNotArgument)
		return
	}
	done, lost := g.eventEnds(s)
	head := g.operand(s.X)
	g.scalar(root, asm.R1)
	g.emit(asm.JEq.Imm(asm.R1, 0, done)) // some kernels require the check
	g.emit(asm.LoadMapPtr(asm.R2, 0).WithReference(s.Map.Name))
	g.load(asm.R3, head.at(packetCaptured), 4)
	g.emit(asm.LSh.Imm(asm.R3, 32), asm.LoadImm(asm.R4, 0xffffffff, asm.DWord),
		asm.Or.Reg(asm.R3, asm.R4))
	g.addr(asm.R4, head)
	g.emit(asm.Mov.Imm(asm.R5, packetHeadSize))
	g.call(asm.FnSkbOutput)
	g.emit(asm.JNE.Imm(asm.R0, 0, lost))
	g.Label(done)
}

// isArgument reports whether a pointer is one of the context's own, which the verifier
// trusts.
func (g *values) isArgument(root *typed.Node, off int64) bool {
	return off == 0 && g.pointee(root) != nil &&
		(root.Op == typed.Ctx || root.Op == ir.OpVar && g.argVars[root.Var])
}
