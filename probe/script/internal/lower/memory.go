package lower

import (
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// cType returns a script's type as BTF has it, nil for void.
func cType(t types.Type) btf.Type {
	switch t.Kind {
	case types.Integer:
		i := &btf.Int{Name: t.String(), Size: uint32(t.Size)}
		if t.Signed {
			i.Encoding = btf.Signed
		}
		return i
	case types.Bool:
		return &btf.Int{Name: "bool", Size: 1, Encoding: btf.Bool}
	case types.Pointer:
		target := cType(*t.Elem)
		if target == nil {
			target = &btf.Void{}
		}
		return &btf.Pointer{Target: target}
	case types.C:
		return t.BTF
	case types.String:
		char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
		return &btf.Array{Index: index, Type: char, Nelems: uint32(t.Size)}
	case types.Array:
		if elem := cType(*t.Elem); elem != nil {
			return &btf.Array{Index: index, Type: elem, Nelems: uint32(t.Len)}
		}
	}
	return nil
}

var index = &btf.Int{Name: "unsigned int", Size: 4}

// user reports whether a pointer or a number is an address in user memory.
func user(t types.Type) bool { return t.Space == types.UserSpace }

// address returns a pointer to what an expression of a C type stands for in memory, nil if that is
// a value of the program's own.
func (l *lowerer) address(x syntax.Expr) *ir.Expr {
	t := l.typ(x)
	switch x := x.(type) {
	case *syntax.Unary:
		if x.Op == "*" {
			return l.pointer(x.X, t)
		}
	case *syntax.Field:
		if l.typ(x.X).Kind != types.C {
			return nil
		}
		if base := l.address(x.X); base != nil {
			return &ir.Expr{Op: ir.OpAddrOf, Str: x.Name, Args: []*ir.Expr{base}}
		}
	case *syntax.Index:
		of := l.typ(x.X)
		var base *ir.Expr
		switch of.Kind {
		case types.Pointer:
			base = l.expr(x.X)
		case types.Array, types.String:
			if base = l.address(x.X); base == nil {
				return nil
			}
		default:
			return nil
		}
		elem := cType(t)
		if t.Kind == types.Array { // an index behind a pointer to an array is one into that array
			elem = &btf.Array{Index: index, Type: elem}
		}
		base = castTo(ir.PtrType(elem, base.Type.User || user(of)), base)
		return &ir.Expr{Op: ir.OpAddrOf, Args: []*ir.Expr{base, l.within(x, l.expr(x.I))}}
	case *syntax.Block:
		if len(x.Stmts) == 0 {
			return l.address(x.Value)
		}
	}
	return nil
}

// addressOf returns the address of a variable.
func (l *lowerer) addressOf(x *syntax.Addr) *ir.Expr {
	n, ok := x.X.(*syntax.Variable)
	if !ok {
		return l.missing(x, "the address of a map")
	}
	v := l.find(n.Name)
	if v == nil || hasNames(l.varNames[v]) {
		return l.missing(x, "the address of this variable")
	}
	return castTo(l.of(x), &ir.Expr{Op: ir.OpVarAddr, Var: v})
}

// pointer returns an expression, a pointer or a number, as a pointer to a type.
func (l *lowerer) pointer(x syntax.Expr, elem types.Type) *ir.Expr {
	of := l.typ(x)
	t := ir.PtrType(cType(elem), user(of))
	if of.Space == types.NoSpace && of.Kind == types.Integer {
		t.User = l.inUser() // as the event is
	}
	return castTo(t, l.expr(x))
}

// inUser reports whether the probe is in user code, where numbers are user addresses.
func (l *lowerer) inUser() bool {
	switch l.point.Provider {
	case "uprobe", "uretprobe", "usdt":
		return true
	}
	return false
}

// deref returns what a pointer points to.
func (l *lowerer) deref(x *syntax.Unary) *ir.Expr {
	t := l.typ(x)
	if t.Kind == types.C || t.Kind == types.Array {
		return l.reading(x, l.typ(x.X), &ir.Expr{Op: ir.OpDeref, Args: []*ir.Expr{l.pointer(x.X, t)}})
	}
	return l.reading(x, l.typ(x.X), &ir.Expr{Op: ir.OpDeref, Type: l.of(x), Args: []*ir.Expr{l.pointer(x.X, t)}})
}

// member returns a member of a struct in memory.
func (l *lowerer) member(x *syntax.Field) *ir.Expr {
	base := l.address(x.X)
	if base == nil {
		return l.memberOf(x)
	}
	if t := l.typ(x); t.Kind == types.String {
		at := &ir.Expr{Op: ir.OpAddrOf, Str: x.Name, Args: []*ir.Expr{base}}
		return l.chars(x, at, t, l.typ(x.X))
	}
	e := &ir.Expr{Op: ir.OpMember, Str: x.Name, Args: []*ir.Expr{base}}
	return l.loaded(x, l.reading(x, l.typ(x.X), e))
}

// memberOf returns a member of a struct that is a value of the program's own.
func (l *lowerer) memberOf(x *syntax.Field) *ir.Expr {
	if arg, ok := x.X.(*syntax.Field); ok && isArgs(arg.X) && l.point.Provider == "uprobe" {
		// It may be in several registers.
		return l.loaded(x, &ir.Expr{Op: ir.OpMember, Str: x.Name, Args: []*ir.Expr{l.arg(arg.Name)}})
	}
	of := l.of(x.X)
	if of.Kind != ir.KindBytes || of.Elem == nil {
		return l.missing(x, "a member of this")
	}
	e := &ir.Expr{Op: ir.OpMember, Str: x.Name, Args: []*ir.Expr{l.kept(x, l.expr(x.X), of)}}
	return l.loaded(x, e)
}

// chars returns the text of an array of char, which may fill the array.
func (l *lowerer) chars(x syntax.Expr, at *ir.Expr, t, of types.Type) *ir.Expr {
	at = castTo(ir.PtrType(nil, user(of)), at)
	most := constant(ir.Uint64Type(), int64(max(t.Size, 1)-1))
	return l.reading(x, of, &ir.Expr{Op: ir.OpStr, Type: l.of(x), Args: []*ir.Expr{at, most}})
}

// loaded gives what was read from memory its type.
func (l *lowerer) loaded(x syntax.Expr, e *ir.Expr) *ir.Expr {
	switch t := l.typ(x); t.Kind {
	case types.C, types.Array:
		return e
	default:
		return castTo(l.of(x), e)
	}
}

// index returns an element of an array, of a text, or behind a pointer.
func (l *lowerer) index(x *syntax.Index) *ir.Expr {
	if base := l.address(x); base != nil {
		return l.loaded(x, l.reading(x, l.typ(x.X), &ir.Expr{Op: ir.OpDeref, Args: []*ir.Expr{base}}))
	}
	args := l.in(x.X, x.I)
	args[1] = l.within(x, args[1])
	return l.loaded(x, ir.NewExpr(ir.OpIndex, args...))
}

// within warns if an index, which is only known when the program runs, is not in the array.
func (l *lowerer) within(x *syntax.Index, i *ir.Expr) *ir.Expr {
	of := l.typ(x.X)
	if n, known := l.literal(x.I); known && n >= 0 && uint64(n) < of.Len || of.Kind != types.Array || of.Len == 0 {
		return i
	}
	i = l.kept(x, castTo(ir.Uint64Type(), i), ir.Uint64Type())
	l.add(x, &ir.Stmt{
		Op: ir.StmtIf, X: ir.NewExpr(ir.OpGe, i, constant(ir.Uint64Type(), int64(of.Len))),
		Body: l.block(func() {
			l.emit(x, Site{Kind: Warning, Format: "Array access out of bounds. This can lead to unexpected results."})
		}),
	})
	return i
}

// offset returns pointer + n or pointer - n, where n counts what the pointer points to.
func (l *lowerer) offset(x *syntax.Binary, op ir.Op) *ir.Expr {
	args := l.in(x.X, x.Y)
	t := l.typ(x)
	size := int64(max(t.Elem.Size, 1))
	for i, side := range []syntax.Expr{x.X, x.Y} {
		if l.typ(side).Kind != types.Pointer && size > 1 {
			args[i] = &ir.Expr{Op: ir.OpMul, Type: ir.Int64Type(), Args: []*ir.Expr{args[i], ir.NewConst(size)}}
		}
	}
	sum := &ir.Expr{Op: op, Type: ir.Uint64Type(), Args: args}
	return castTo(l.of(x), sum)
}

// str returns the text behind a pointer.
func (l *lowerer) str(c *syntax.Call) *ir.Expr {
	x := c.Args[0]
	t := l.of(c)
	if l.typ(x).Kind == types.String {
		return castTo(t, l.expr(x))
	}
	char := types.Type{Kind: types.Integer, Size: 1, Signed: true}
	args := []*ir.Expr{l.pointer(x, char)}
	if len(c.Args) > 1 {
		args = append(args, l.length(c.Args[1]))
	}
	return l.reading(c, l.typ(x), &ir.Expr{Op: ir.OpStr, Type: t, Args: args})
}

// length returns the number of bytes of a text of a length that a script gives: that counts the
// NUL, unless texts have room for it.
func (l *lowerer) length(x syntax.Expr) *ir.Expr {
	if i, ok := x.(*syntax.Integer); ok {
		n := max(int64(min(i.Value, 1<<20))-1+l.textRoom(), 0)
		return constant(ir.Uint64Type(), n)
	}
	n := castTo(ir.Uint64Type(), l.expr(x))
	if l.textRoom() > 0 {
		return n
	}
	n = l.kept(x, n, n.Type)
	less := &ir.Expr{Op: ir.OpSub, Type: n.Type, Args: []*ir.Expr{n, ir.NewConst(1)}}
	return &ir.Expr{Op: ir.OpCond, Type: ir.Uint64Type(), Args: []*ir.Expr{
		ir.NewExpr(ir.OpEq, n, ir.NewConst(0)), n, less,
	}}
}

// buf returns bytes behind a pointer, and how many they are.
func (l *lowerer) buf(c *syntax.Call) *ir.Expr {
	t := l.of(c)
	room := t.Fields[1].Type
	length := constant(ir.IntType(4, false), int64(room.Size))
	text, literal := c.Args[0].(*syntax.String)
	var from *ir.Expr
	if literal {
		// its bytes are in the program
	} else if of := l.typ(c.Args[0]); of.Kind == types.Array || of.Kind == types.C || of.Kind == types.String {
		if from = l.address(c.Args[0]); from == nil {
			return l.missing(c, "buf() of a value")
		}
		from = castTo(ir.PtrType(nil, from.Type.User || user(of)), from)
	} else {
		from = l.pointer(c.Args[0], types.Type{})
	}
	asked := length // as it is read: what is cut is counted
	if len(c.Args) > 1 {
		most := length
		length = castTo(ir.IntType(4, false), l.expr(c.Args[1]))
		length = l.kept(c, length, length.Type)
		asked = length
		length = &ir.Expr{Op: ir.OpCond, Type: ir.IntType(4, false), Args: []*ir.Expr{
			ir.NewExpr(ir.OpLt, length, most), length, most,
		}}
		length = l.kept(c, length, length.Type)
	}
	data := &ir.Expr{Op: ir.OpBuf, Type: room, Args: []*ir.Expr{from, asked}}
	if literal {
		b := make([]byte, room.Size)
		copy(b, text.Value)
		data = &ir.Expr{Op: ir.OpBytes, Type: room, Str: string(b)}
	} else {
		l.reading(c, l.typ(c.Args[0]), data)
	}
	return &ir.Expr{Op: ir.OpTuple, Type: t, Args: []*ir.Expr{length, data}}
}
