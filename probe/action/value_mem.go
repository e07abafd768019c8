package action

import (
	"net/netip"

	"github.com/borescope/borescope/probe/ir"
)

// Bytes returns constant bytes.
func Bytes(b []byte) Tuple {
	return Tuple{&ir.Expr{Op: ir.OpBytes, Str: string(b), Pos: callerPos()}}
}

// Addr returns a constant IP address as the kernel keeps it, in network order: 4 or 16 bytes.
// To compare it with a number of 4 bytes, use Addr(a).Int with a 32-bit type.
func Addr(a netip.Addr) Tuple {
	b := a.AsSlice()
	t := ir.BytesType(max(len(b), 1)).WithFormat(ir.FormatIP)
	return Tuple{&ir.Expr{Op: ir.OpBytes, Type: t, Str: string(b), Pos: callerPos()}}
}

// IPv4 returns an IPv4 address. x is a number of 4 bytes in network order. A Log prints it as
// an address; in events it is a field of type [4]byte.
func IPv4(x any) Tuple {
	n := &ir.Expr{Op: ir.OpCast, Type: ir.IntType(4, false), Args: []*ir.Expr{lift(x)}}
	return Tuple{&ir.Expr{
		Op: ir.OpCast, Type: ir.BytesType(4).WithFormat(ir.FormatIP),
		Args: []*ir.Expr{n}, Pos: callerPos(),
	}}
}

// IPv6 returns an IPv6 address. x is 16 bytes, or a pointer to them.
func IPv6(x any) Tuple { return formatted(x, 16, ir.FormatIP) }

// MAC returns a hardware address. x is 6 bytes, or a pointer to them.
func MAC(x any) Tuple { return formatted(x, 6, ir.FormatMAC) }

func formatted(x any, size int, f ir.Format) Tuple {
	t := ir.BytesType(size).WithFormat(f)
	return Tuple{&ir.Expr{Op: ir.OpBuf, Type: t, Args: []*ir.Expr{lift(x)}, Pos: callerPos()}}
}

// Eq reports whether the values are equal, byte by byte.
func (v Tuple) Eq(x any) Bool { return Bool(Int{e: v.e}.test(ir.OpEq, x)) }

// Int returns the bytes as an integer of their size, in memory's byte order.
func (v Tuple) Int(t ir.Type) Int {
	return Int{nil, &ir.Expr{Op: ir.OpCast, Type: t, Args: []*ir.Expr{v.Expr()}, Pos: callerPos()}}
}

// Len returns the number of frames in the stack.
func (v Stack) Len() Int { return Int{nil, ir.NewExpr(ir.OpLen, v.Expr())} }

// Frame returns the program counter of frame i, or 0 beyond the last.
func (v Stack) Frame(i any) Int { return Int{e: v.Expr()}.Index(i) }
