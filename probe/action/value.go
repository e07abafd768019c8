package action

import (
	"fmt"
	"reflect"

	"github.com/borescope/borescope/probe/ir"
)

// Value is a value that a program computes when it runs: an Int, a Bool, a Str, a Ptr, a
// Stack or a Tuple. Values are made at build time by the methods of Ctx and of other values.
//
// A parameter of type any takes a Value, or a Go integer, bool or string as a constant.
// Anything else is an error that Compile reports.
type Value interface {
	// Expr returns the expression behind the value, to mix the typed surface with the IR.
	Expr() *ir.Expr
}

// Int is a number, or a value whose type only the plan has, such as an argument: Ptr, Str,
// UserStr and Elem convert it. Arithmetic has 64 bits and wraps around; it is unsigned if an
// operand is an unsigned 64-bit number. Division by zero gives 0, and its remainder is the
// dividend. The zero Int is the constant 0.
//
// A comparison with a constant that every value of the Int's type gives the same result is an
// error of Compile: an unsigned number is never below 0. Arguments without a known type are
// unsigned; As converts them.
type Int struct {
	c *Ctx
	e *ir.Expr
}

// Bool is a condition.
type Bool struct {
	c *Ctx
	e *ir.Expr
}

// Str is text of bounded size.
type Str struct {
	c *Ctx
	e *ir.Expr
}

// Ptr is an address in kernel or user memory, with the type of the memory there.
type Ptr struct {
	c *Ctx
	e *ir.Expr
}

// Stack is a list of program counters, innermost first.
type Stack struct{ e *ir.Expr }

// Tuple is several values side by side, such as a key of several parts.
type Tuple struct{ e *ir.Expr }

// Expr returns the expression behind the value.
func (v Int) Expr() *ir.Expr { return orZero(v.e) }

// Expr returns the expression behind the value.
func (v Bool) Expr() *ir.Expr { return orZero(v.e) }

// Expr returns the expression behind the value.
func (v Str) Expr() *ir.Expr { return orZero(v.e) }

// Expr returns the expression behind the value.
func (v Ptr) Expr() *ir.Expr { return orZero(v.e) }

// Expr returns the expression behind the value.
func (v Stack) Expr() *ir.Expr { return orZero(v.e) }

// Expr returns the expression behind the value.
func (v Tuple) Expr() *ir.Expr { return orZero(v.e) }

func orZero(e *ir.Expr) *ir.Expr {
	if e == nil {
		return ir.NewConst(0)
	}
	return e
}

// lift makes an expression of a Value or a Go constant.
func lift(x any) *ir.Expr {
	switch v := x.(type) {
	case Value:
		return v.Expr()
	case *ir.Expr:
		return orZero(v)
	case string:
		return ir.NewString(v)
	case bool:
		e := &ir.Expr{Op: ir.OpConst, Type: ir.BoolType()}
		if v {
			e.Int = 1
		}
		return e
	}
	r := reflect.ValueOf(x)
	switch {
	case r.IsValid() && r.CanInt():
		return ir.NewConst(r.Int())
	case r.IsValid() && r.CanUint() && r.Uint() > 1<<63-1:
		return &ir.Expr{Op: ir.OpConst, Type: ir.Uint64Type(), Int: int64(r.Uint())}
	case r.IsValid() && r.CanUint():
		return ir.NewConst(int64(r.Uint()))
	}
	return &ir.Expr{Op: ir.OpInvalid, Str: fmt.Sprintf("%T is neither a value nor a constant", x)}
}

func (v Int) op(op ir.Op, x any) Int {
	return Int{v.c, &ir.Expr{Op: op, Args: []*ir.Expr{v.Expr(), lift(x)}, Pos: callerPos()}}
}

// test compares v with x. An error of the comparison says how v is converted.
func (v Int) test(op ir.Op, x any) Bool {
	b := v.op(op, x)
	b.e.Str = "%s.As(ir.Int64Type())"
	return Bool(b)
}

// Add returns v + x.
func (v Int) Add(x any) Int { return v.op(ir.OpAdd, x) }

// Sub returns v - x.
func (v Int) Sub(x any) Int { return v.op(ir.OpSub, x) }

// Mul returns v * x.
func (v Int) Mul(x any) Int { return v.op(ir.OpMul, x) }

// Div returns v / x, rounded towards zero. If x is 0, it is 0.
func (v Int) Div(x any) Int { return v.op(ir.OpDiv, x) }

// Mod returns the remainder of v / x. If x is 0, it is v.
func (v Int) Mod(x any) Int { return v.op(ir.OpMod, x) }

// And returns the bitwise and.
func (v Int) And(x any) Int { return v.op(ir.OpAnd, x) }

// Or returns the bitwise or.
func (v Int) Or(x any) Int { return v.op(ir.OpOr, x) }

// Xor returns the bitwise exclusive or.
func (v Int) Xor(x any) Int { return v.op(ir.OpXor, x) }

// Shl returns v shifted left by x modulo 64.
func (v Int) Shl(x any) Int { return v.op(ir.OpShl, x) }

// Shr returns v shifted right by x modulo 64; a signed value keeps its sign.
func (v Int) Shr(x any) Int { return v.op(ir.OpShr, x) }

// Neg returns -v.
func (v Int) Neg() Int { return Int{v.c, ir.NewExpr(ir.OpNeg, v.Expr())} }

// Eq reports whether v == x.
func (v Int) Eq(x any) Bool { return v.test(ir.OpEq, x) }

// Ne reports whether v != x.
func (v Int) Ne(x any) Bool { return v.test(ir.OpNe, x) }

// Lt reports whether v < x.
func (v Int) Lt(x any) Bool { return v.test(ir.OpLt, x) }

// Le reports whether v <= x.
func (v Int) Le(x any) Bool { return v.test(ir.OpLe, x) }

// Gt reports whether v > x.
func (v Int) Gt(x any) Bool { return v.test(ir.OpGt, x) }

// Ge reports whether v >= x. If x is 0 and v is unsigned, that is always so, and is not an
// error as it is in other languages: x may be a variable of a Go program, a least value.
func (v Int) Ge(x any) Bool {
	e := lift(x)
	if e.Op == ir.OpConst && e.Int == 0 && e.Type.Kind == ir.KindAuto {
		e = &ir.Expr{Op: ir.OpConst, Type: ir.Int64Type()}
	}
	return v.test(ir.OpGe, e)
}

// As converts the value to an integer type: it is truncated or extended to the type's width.
func (v Int) As(t ir.Type) Int {
	return Int{v.c, &ir.Expr{Op: ir.OpCast, Type: t, Args: []*ir.Expr{v.Expr()}, Pos: callerPos()}}
}

// Bswap reverses the bytes, in the value's own width. It converts ports and addresses from
// network order.
func (v Int) Bswap() Int { return Int{v.c, ir.NewExpr(ir.OpBswap, v.Expr())} }

// Ptr returns the value as a pointer. The plan must have its type.
func (v Int) Ptr() Ptr { return Ptr(v) }

// PtrTo returns the value as a pointer to the kernel type of that name ("struct sock",
// "task_struct"), in user memory if user is set.
func (v Int) PtrTo(name string, user bool) Ptr {
	t := ir.Type{Kind: ir.KindPtr, Size: 8, User: user}
	return Ptr{v.c, &ir.Expr{
		Op: ir.OpCast, Type: t, Str: name, Args: []*ir.Expr{v.Expr()},
		Pos: callerPos(),
	}}
}

// Str returns the text that the value is or points to, cut to size-1 bytes. A number is taken
// as an address of the user's in uprobes, uretprobes and USDT probes, and of the kernel's
// elsewhere.
func (v Int) Str(size int) Str { return Ptr(v).Str(size) }

// UserStr returns the text at the user address that the value is, cut to size-1 bytes.
func (v Int) UserStr(size int) Str {
	p := &ir.Expr{Op: ir.OpCast, Type: ir.PtrType(nil, true), Args: []*ir.Expr{v.Expr()}}
	return Ptr{v.c, p}.Str(size)
}

// Elem returns a field of a struct value (of a map whose values are structs).
func (v Int) Elem(name string) Int {
	return Int{v.c, &ir.Expr{Op: ir.OpElem, Str: name, Args: []*ir.Expr{v.Expr()}, Pos: callerPos()}}
}

// Index returns element i of an array value; it is 0 beyond the end. If i is constant,
// elements may be of any type.
func (v Int) Index(i any) Int {
	return Int{v.c, &ir.Expr{Op: ir.OpIndex, Args: []*ir.Expr{v.Expr(), lift(i)}, Pos: callerPos()}}
}

// Int returns 1 if v holds and 0 if not.
func (v Bool) Int() Int {
	return Int{v.c, &ir.Expr{Op: ir.OpCast, Type: ir.IntType(4, false), Args: []*ir.Expr{v.Expr()}}}
}

// Not reports whether v does not hold.
func (v Bool) Not() Bool { return Bool{v.c, ir.NewExpr(ir.OpLNot, v.Expr())} }

// And reports whether both hold. x is computed only if v holds.
func (v Bool) And(x Bool) Bool { return Bool{v.c, ir.NewExpr(ir.OpLAnd, v.Expr(), x.Expr())} }

// Or reports whether at least one holds. x is computed only if v does not hold.
func (v Bool) Or(x Bool) Bool { return Bool{v.c, ir.NewExpr(ir.OpLOr, v.Expr(), x.Expr())} }

// Select returns yes if cond holds, and no otherwise. no is an integer, or a string if yes is
// a Str.
func Select[V Int | Str](cond Bool, yes V, no any) V {
	args := []*ir.Expr{cond.Expr(), any(yes).(Value).Expr(), lift(no)}
	return V{Int(yes).c, &ir.Expr{Op: ir.OpCond, Args: args, Pos: callerPos()}}
}

func (v Str) test(op ir.Op, x any) Bool {
	return Bool{v.c, &ir.Expr{Op: op, Args: []*ir.Expr{v.Expr(), lift(x)}, Pos: callerPos()}}
}

// Eq reports whether the texts are equal.
func (v Str) Eq(x any) Bool { return v.test(ir.OpEq, x) }

// HasPrefix reports whether the text begins with s.
func (v Str) HasPrefix(s string) Bool {
	return Bool{v.c, &ir.Expr{
		Op: ir.OpHasPrefix, Str: s, Args: []*ir.Expr{v.Expr()},
		Pos: callerPos(),
	}}
}

// Contains reports whether s, a string or a Str, is in the text. The search is unrolled: its
// number of instructions grows with the size of the text times that of s.
func (v Str) Contains(s any) Bool { return v.test(ir.OpContains, s) }

// IndexOf returns the index of the first s, a string or a Str, in the text, or -1. It costs
// as much as Contains.
func (v Str) IndexOf(s any) Int { return Int(v.test(ir.OpIndexOf, s)) }

// Glob reports whether the pattern matches the whole text: * is any text, ? any byte, [a-z]
// and [!a-z] one byte of a class.
func (v Str) Glob(pattern string) Bool {
	return Bool{v.c, &ir.Expr{
		Op: ir.OpGlob, Str: pattern, Args: []*ir.Expr{v.Expr()},
		Pos: callerPos(),
	}}
}

// Len returns the number of bytes in the text.
func (v Str) Len() Int { return Int{v.c, ir.NewExpr(ir.OpLen, v.Expr())} }

// Member reads a member of what the pointer points to, by path: "f_path.dentry",
// "d_name.name", "sk->__sk_common.skc_dport", "args[2]".
func (v Ptr) Member(path string) Int {
	e := &ir.Expr{Op: ir.OpMember, Str: path, Args: []*ir.Expr{v.Expr()}, Pos: callerPos()}
	return v.c.read(e)
}

// Addr returns the address of a member.
func (v Ptr) Addr(path string) Ptr {
	return Ptr{v.c, &ir.Expr{Op: ir.OpAddrOf, Str: path, Args: []*ir.Expr{v.Expr()}, Pos: callerPos()}}
}

// Offset returns the offset in bytes of a member in what the pointer points to.
func (v Ptr) Offset(path string) Int {
	return Int{v.c, &ir.Expr{Op: ir.OpOffset, Str: path, Args: []*ir.Expr{v.Expr()}, Pos: callerPos()}}
}

// Container returns the object of the kernel type typ whose member the pointer points to,
// like container_of.
func (v Ptr) Container(typ, member string) Ptr {
	off := Int{v.c, ir.NewConst(0)}.PtrTo(typ, false).Offset(member)
	return Int{v.c, &ir.Expr{
		Op: ir.OpSub, Type: ir.Uint64Type(),
		Args: []*ir.Expr{v.Expr(), off.Expr()}, Pos: callerPos(),
	}}.PtrTo(typ, false)
}

// User returns the same pointer as one into user memory. It is for pointers whose type does
// not say where they point to.
func (v Ptr) User() Ptr { return Ptr{v.c, ir.NewExpr(ir.OpUptr, v.Expr())} }

// IsErr reports whether the pointer is an error that the kernel returned in its place
// (IS_ERR, include/linux/err.h): -4095 to -1.
func (v Ptr) IsErr() Bool {
	return v.Int().As(ir.Uint64Type()).Ge(&ir.Expr{Op: ir.OpConst, Type: ir.Uint64Type(), Int: -4095})
}

// At returns the address of element i, for a pointer to an element or to an array.
func (v Ptr) At(i any) Ptr {
	return Ptr{v.c, &ir.Expr{Op: ir.OpAddrOf, Args: []*ir.Expr{v.Expr(), lift(i)}, Pos: callerPos()}}
}

// OnCPU returns the address of a per-CPU variable on a CPU:
// c.KernelAddr("runqueues").OnCPU(c.CPU()).
func (v Ptr) OnCPU(cpu any) Ptr {
	return Ptr{v.c, &ir.Expr{Op: ir.OpPerCPU, Args: []*ir.Expr{v.Expr(), lift(cpu)}, Pos: callerPos()}}
}

// SocketCookie returns the cookie of the socket that v points to. v must be an argument of
// the probe that the kernel types (fentry, fexit, tracepoints with probe.Options.PreferBTF;
// Linux 5.12). The cookie identifies the socket until the machine restarts, as
// getsockopt(SO_COOKIE) does. It is 0 for a null pointer.
func (v Ptr) SocketCookie() Int {
	return Int{v.c, ir.NewExpr(ir.OpSocketCookie, v.Expr())}
}

// TaskPID returns the process id (thread group id) of the kernel's struct task_struct that v
// points to, in the namespace of Ctx.PID. It is the number to print and to compare with a
// user's number, in a container too. Member("tgid") is the number in the initial namespace,
// as in the records of tracepoints.
func (v Ptr) TaskPID() Int {
	return v.c.read(&ir.Expr{Op: ir.OpTaskPID, Args: []*ir.Expr{v.Expr()}, Pos: callerPos()})
}

// TaskTID returns the thread id of the task that v points to, in the namespace of Ctx.PID.
func (v Ptr) TaskTID() Int {
	return v.c.read(&ir.Expr{Op: ir.OpTaskTID, Args: []*ir.Expr{v.Expr()}, Pos: callerPos()})
}

// Path returns the path that a struct path stands for, as the current process sees it, in at
// most size-1 bytes. A longer path is returned empty, and counted (Stats.Truncated). v must
// point to a struct path in an argument of the probe:
// c.ArgNamed("file").Ptr().Addr("f_path").Path(256). The kernel permits it in iterators
// (5.12), in LSM hooks that may sleep (5.11), and in fentry and fexit of some functions,
// which the error for all others lists (5.10).
func (v Ptr) Path(size int) Str {
	return Str(v.c.read(&ir.Expr{
		Op: ir.OpPath, Type: ir.StringType(size), Args: []*ir.Expr{v.Expr()},
		Pos: callerPos(),
	}))
}

// Index returns element i of the array that the pointer points to.
func (v Ptr) Index(i any) Int {
	return v.c.read(&ir.Expr{Op: ir.OpIndex, Args: []*ir.Expr{v.Expr(), lift(i)}, Pos: callerPos()})
}

// Load returns the value of type t at off bytes after the address.
func (v Ptr) Load(off int64, t ir.Type) Int {
	p := v.Expr()
	if off != 0 {
		p = &ir.Expr{Op: ir.OpAdd, Args: []*ir.Expr{p, ir.NewConst(off)}}
	}
	return v.c.read(&ir.Expr{Op: ir.OpDeref, Type: t, Args: []*ir.Expr{p}, Pos: callerPos()})
}

// Str returns the text at the address, cut to size-1 bytes. Cuts are counted
// (Stats.Truncated).
func (v Ptr) Str(size int) Str {
	e := &ir.Expr{
		Op: ir.OpStr, Type: ir.StringType(size), Args: []*ir.Expr{v.Expr()},
		Pos: callerPos(),
	}
	return Str(v.c.read(e))
}

// Bytes returns the size bytes at the address.
func (v Ptr) Bytes(size int) Tuple {
	e := &ir.Expr{Op: ir.OpBuf, Type: ir.BytesType(size), Args: []*ir.Expr{v.Expr()}, Pos: callerPos()}
	return Tuple{v.c.read(e).e}
}

// Int returns the address as a number.
func (v Ptr) Int() Int { return Int(v) }

// Eq reports whether the addresses are equal; x may be 0.
func (v Ptr) Eq(x any) Bool { return Int(v).Eq(x) }

// Ne reports whether the addresses differ; x may be 0.
func (v Ptr) Ne(x any) Bool { return Int(v).Ne(x) }

// Key returns several values side by side, as the key of a map whose Go key type is a struct
// with fields of these types in this order.
func Key(parts ...any) Tuple {
	e := &ir.Expr{Op: ir.OpTuple, Pos: callerPos()}
	for _, p := range parts {
		e.Args = append(e.Args, lift(p))
	}
	return Tuple{e}
}
