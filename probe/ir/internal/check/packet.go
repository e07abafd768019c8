package check

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// packetSince is the first kernel with bpf_skb_output in tracing programs (a7658e1a4164).
var packetSince = ir.Version{5, 5}

// packet determines the types of a packet's output. The result has the pointer as Key, and as
// X the head that precedes the packet's bytes.
func (c *checker) packet(out *typed.Stmt, s *ir.Stmt) (err error) {
	if s.Map == nil || s.Map.Kind != ir.MapPerf || !s.Map.Value.Equal(ir.TypeOf[ir.PacketHead]()) {
		return errors.New("the map is not that of a Packets")
	}
	if out.Key, err = c.expr(s.Key); err != nil {
		return err
	}
	ptr := out.Key.Type
	if buf, _ := StructOf(ptr.Elem).(*btf.Struct); ptr.Kind != ir.KindPtr || ptr.User || buf == nil ||
		buf.Name != "sk_buff" {
		return fmt.Errorf("%s is not a pointer to the kernel's struct sk_buff", ptr)
	}
	if !c.kern.AtLeast(packetSince) {
		return Unsupported(s.Op.String(), packetSince, "this plan is for Linux "+c.plan.Kernel)
	}
	if c.pp.Type != ebpf.Tracing || c.pp.Context != probe.ContextTramp {
		return Unsupported(s.Op.String(), packetSince, c.targetName()+
			" is loaded as a program whose arguments the kernel does not type: take fentry or fexit, or a tracepoint with probe.Options.PreferBTF")
	}
	length, err := c.expr(&ir.Expr{Op: ir.OpMember, Str: "len", Args: []*ir.Expr{s.Key}, Pos: s.Pos})
	if err != nil {
		return err
	}
	most := constOf(ir.IntType(4, false), ir.MaxPacket)
	if s.X != nil {
		if most, err = c.limit(s.X); err != nil {
			return err
		}
	}
	n := c.keep("len", length)
	now := builtinOf("nsecs", ir.Uint64Type().WithFormat(ir.FormatTime))
	out.X = typed.New(ir.OpTuple, s.Map.Value, now, n, lesser(most, n))
	return nil
}

// limit returns the number of bytes of a packet to capture: the lesser of the caller's number
// and the size of a record.
func (c *checker) limit(e *ir.Expr) (*typed.Node, error) {
	x, err := c.expr(e)
	if err != nil {
		return nil, err
	}
	if x.Const() {
		if x.Int < 0 {
			return nil, fmt.Errorf("a packet of %d bytes", x.Int)
		}
		return constOf(ir.IntType(4, false), uint64(min(x.Int, ir.MaxPacket))), nil
	}
	if x, err = convertNumber(x, ir.IntType(4, false)); err != nil {
		return nil, err
	}
	return c.keep("most", lesser(constOf(ir.IntType(4, false), ir.MaxPacket), c.keep("limit", x))), nil
}

// keep computes a value before the statement, which reads it twice, and returns the variable
// that holds it.
func (c *checker) keep(name string, x *typed.Node) *typed.Node {
	v := &ir.Var{Name: name, Type: x.Type}
	c.list = append(c.list, v)
	c.before = append(c.before, &typed.Stmt{Op: ir.StmtLet, Var: v, X: x, Pos: c.pos})
	return &typed.Node{Op: ir.OpVar, Type: x.Type, Var: v}
}

// lesser returns the lesser of two unsigned numbers of 32 bits.
func lesser(a, b *typed.Node) *typed.Node { return choice(compared(ir.OpLt, a, b), a, b) }
