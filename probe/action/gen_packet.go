package action

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
)

// packetSince is when tracing programs got bpf_skb_output (a7658e1a4164).
var packetSince = Version{5, 5}

// packetHead is what a record of a Packets begins with; the packet's bytes follow.
type packetHead struct {
	Time          uint64 // CLOCK_MONOTONIC
	Len, Captured uint32
}

// Where a head has the captured length, and its size.
const (
	packetCaptured = 12
	packetHeadSize = 16
)

// packet types a packet's output. What is left of the statement are the pointer,
// as Key, and the head that goes before the packet's bytes, as X.
func (c *checker) packet(out, s *Stmt) (err error) {
	if s.Map == nil || s.Map.Kind != MapPerf || !s.Map.Value.Equal(TypeOf[packetHead]()) {
		return errors.New("the map is not that of a Packets")
	}
	if out.Key, err = c.expr(s.Key); err != nil {
		return err
	}
	ptr := out.Key.Type
	if buf, _ := structOf(ptr.Elem).(*btf.Struct); ptr.Kind != KindPtr || ptr.User || buf == nil || buf.Name != "sk_buff" {
		return fmt.Errorf("%s is no pointer to a struct sk_buff of the kernel's", ptr)
	}
	if !c.kern.AtLeast(packetSince) {
		return unsupported(s.Op.String(), packetSince, "this plan is for Linux "+c.plan.Kernel)
	}
	if c.pp.Type != ebpf.Tracing || c.pp.Context != probe.ContextTramp {
		return unsupported(s.Op.String(), packetSince, c.targetName()+
			" is loaded as a program whose arguments the kernel does not type: take fentry or fexit, or a tracepoint with probe.Options.PreferBTF")
	}
	length, err := c.expr(&Expr{Op: OpMember, Str: "len", Args: []*Expr{s.Key}, Pos: s.Pos})
	if err != nil {
		return err
	}
	most := constOf(u32, MaxPacket)
	if s.X != nil {
		if most, err = c.limit(s.X); err != nil {
			return err
		}
	}
	n := c.keep("len", length)
	out.X = &Expr{Op: OpTuple, Type: s.Map.Value, Pos: s.Pos, Args: []*Expr{
		{Op: OpBuiltin, Type: builtins["nsecs"].Type, Str: "nsecs"}, n, lesser(most, n),
	}}
	return nil
}

// limit is how many bytes of a packet may be captured: as many as the caller
// wants and a record can hold.
func (c *checker) limit(e *Expr) (*Expr, error) {
	x, err := c.expr(e)
	if err != nil {
		return nil, err
	}
	if isConst(x) {
		if x.Int < 0 {
			return nil, fmt.Errorf("a packet of %d bytes", x.Int)
		}
		return constOf(u32, uint64(min(x.Int, MaxPacket))), nil
	}
	if x, err = convertNumber(x, u32); err != nil {
		return nil, err
	}
	return c.keep("most", lesser(constOf(u32, MaxPacket), c.keep("limit", x))), nil
}

// keep has a value computed before the statement, because it is read twice.
func (c *checker) keep(name string, x *Expr) *Expr {
	v := &Var{Name: name, Type: x.Type}
	c.list = append(c.list, v)
	c.before = append(c.before, &Stmt{Op: StmtLet, Var: v, X: x, Pos: x.Pos})
	return &Expr{Op: OpVar, Type: x.Type, Var: v}
}

// lesser is the lesser of two unsigned numbers of 32 bits.
func lesser(a, b *Expr) *Expr {
	return &Expr{Op: OpCond, Type: u32, Args: []*Expr{{Op: OpLt, Type: BoolType(), Args: []*Expr{a, b}}, a, b}}
}

// emitPacket calls bpf_skb_output(skb, map, captured<<32 | BPF_F_CURRENT_CPU, head, size).
func (g *gen) emitPacket(s *Stmt) {
	root, off := pointerRoot(s.Key, 0)
	if !g.isArgument(root, off) {
		g.fail("%s: %w", s.Op, errNotArgument)
		return
	}
	done, lost := g.eventEnds(s)
	head := g.operand(s.X)
	g.scalar(root, asm.R1)
	g.emit(asm.JEq.Imm(asm.R1, 0, done)) // which some kernels insist on
	g.emit(asm.LoadMapPtr(asm.R2, 0).WithReference(s.Map.Name))
	g.load(asm.R3, head.at(packetCaptured), 4)
	g.emit(asm.LSh.Imm(asm.R3, 32), asm.LoadImm(asm.R4, 0xffffffff, asm.DWord), asm.Or.Reg(asm.R3, asm.R4))
	g.addr(asm.R4, head)
	g.emit(asm.Mov.Imm(asm.R5, packetHeadSize))
	g.call(asm.FnSkbOutput)
	g.emit(asm.JNE.Imm(asm.R0, 0, lost))
	g.place(done)
}

// isArgument says whether a pointer is one that the context has, which the
// verifier trusts.
func (g *gen) isArgument(root *Expr, off int64) bool {
	return off == 0 && g.pointee(root) != nil && (root.Op == opCtx || root.Op == OpVar && g.argVars[root.Var])
}

// packet emits what Machine.Packet has of a packet.
func (r *run) packet(s *Stmt) {
	skb := r.expr(s.Key).n
	if skb == 0 {
		return
	}
	b := append([]byte(nil), r.expr(s.X).b...)
	data := make([]byte, binary.LittleEndian.Uint32(b[packetCaptured:]))
	if r.Packet != nil {
		copy(data, r.Packet(skb, len(data)))
	}
	r.Events[s.Map] = append(r.Events[s.Map], append(b, data...))
}
