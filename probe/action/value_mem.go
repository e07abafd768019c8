package action

import "net/netip"

// Bytes is constant bytes.
func Bytes(b []byte) Tuple { return Tuple{&Expr{Op: OpBytes, Str: string(b), Pos: callerPos()}} }

// Addr is a constant IP address as the kernel keeps it, in network order: 4 or
// 16 bytes. Compared with a number of 4 bytes, take Addr(a).Int(32-bit type).
func Addr(a netip.Addr) Tuple {
	b := a.AsSlice()
	t := BytesType(max(len(b), 1)).WithFormat(FormatIP)
	return Tuple{&Expr{Op: OpBytes, Type: t, Str: string(b), Pos: callerPos()}}
}

// IPv4 is an IPv4 address: a number of 4 bytes in network order. A Log prints
// it as such; in events it is a field of type [4]byte.
func IPv4(x any) Tuple {
	n := &Expr{Op: OpCast, Type: u32, Args: []*Expr{lift(x)}}
	return Tuple{&Expr{Op: OpCast, Type: BytesType(4).WithFormat(FormatIP), Args: []*Expr{n}, Pos: callerPos()}}
}

// IPv6 is the IPv6 address that a pointer points to, or that 16 bytes are.
func IPv6(x any) Tuple { return formatted(x, 16, FormatIP) }

// MAC is the hardware address that a pointer points to, or that 6 bytes are.
func MAC(x any) Tuple { return formatted(x, 6, FormatMAC) }

func formatted(x any, size int, f Format) Tuple {
	t := BytesType(size).WithFormat(f)
	return Tuple{&Expr{Op: OpBuf, Type: t, Args: []*Expr{lift(x)}, Pos: callerPos()}}
}

// Eq returns whether the values are equal, byte by byte.
func (v Tuple) Eq(x any) Bool { return Bool(Int{e: v.e}.test(OpEq, x)) }

// Ne returns whether they differ.
func (v Tuple) Ne(x any) Bool { return Bool(Int{e: v.e}.test(OpNe, x)) }

// Index is element i: see Int.Index.
func (v Tuple) Index(i any) Int { return Int{e: v.Expr()}.Index(i) }

// Elem is element number i.
func (v Tuple) Elem(i int) Int {
	return Int{nil, &Expr{Op: OpElem, Int: int64(i), Args: []*Expr{v.Expr()}, Pos: callerPos()}}
}

// Int takes bytes as an integer of their size, in memory's order.
func (v Tuple) Int(t Type) Int {
	return Int{nil, &Expr{Op: OpCast, Type: t, Args: []*Expr{v.Expr()}, Pos: callerPos()}}
}

// Len is how many frames the stack has.
func (v Stack) Len() Int { return Int{nil, NewExpr(OpLen, v.Expr())} }

// Frame is the program counter of frame i, 0 behind the last.
func (v Stack) Frame(i any) Int { return Int{e: v.Expr()}.Index(i) }

// Memcmp compares the first n bytes of two values that are text or bytes: -1, 0
// or 1 by the first that differ.
func Memcmp(a, b any, n int) Int {
	return Int{nil, &Expr{Op: OpMemcmp, Int: int64(n), Args: []*Expr{lift(a), lift(b)}, Pos: callerPos()}}
}

// TypeOf is the type that programs give the Go type T, as of memory to read:
// p.Load(0, TypeOf[T]()) is a struct whose fields Int.Elem picks. It panics
// never: a type that has no fixed form is one that Compile refuses.
func TypeOf[T any]() Type {
	t, err := typeFor[T]()
	if err != nil {
		return Type{Kind: KindTuple}
	}
	return t
}
