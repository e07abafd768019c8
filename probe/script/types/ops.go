package types

import (
	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/syntax"
)

// comparison reports whether the result of an operator is a bool.
func comparison(op string) bool {
	_, ok := fold.Compared(op, 0)
	return ok || op == "&&" || op == "||"
}

func (c *checker) invalidOp(n *syntax.Binary, x, y Type) Type {
	c.fail(n, "The "+n.Op+" operator can not be used on expressions of types "+x.String()+", "+
		y.String())
	return Type{}
}

// binary returns the type of a binary operation.
func (c *checker) binary(n *syntax.Binary, x, y Type) Type {
	if x.Kind == Bool && y.Kind == Bool {
		return simple(Bool, 1)
	}
	if x.Kind == Pointer || y.Kind == Pointer {
		return c.pointers(n, x, y)
	}
	signed := x.Signed || y.Signed
	if n.Op == "<<" || n.Op == ">>" {
		signed = x.Signed
	}
	t := integer(8, signed)
	switch {
	case x.number() && y.number():
		t = c.integers(n, x, y)
	case comparison(n.Op):
		t = simple(Bool, 1)
	}
	switch {
	case x.Space != y.Space && x.Space != NoSpace && y.Space != NoSpace:
		c.warn(n, "Addrspace mismatch")
		t.Space = NoSpace
	case x.Space != NoSpace:
		t.Space = x.Space
	default:
		t.Space = y.Space
	}
	return t
}

// pointers returns the type of an operation with one or two pointers.
func (c *checker) pointers(n *syntax.Binary, x, y Type) Type {
	p, other := x, y
	if x.Kind != Pointer {
		p, other = y, x
	}
	compare := comparison(n.Op)
	switch {
	case other.Kind == Pointer:
		if !compare {
			return c.invalidOp(n, x, y)
		}
		a, b := x.pointee(), y.pointee()
		if !a.Equal(b) {
			w := c.warn(n, "comparison of distinct pointer types: "+a.String()+", "+b.String())
			w.Notes = []syntax.Note{
				{Loc: *n.X.At(), Msg: "left (" + a.String() + ")"},
				{Loc: *n.Y.At(), Msg: "right (" + b.String() + ")"},
			}
		}
		return simple(Bool, 1)
	case other.Kind != Integer && other.Kind != Bool:
		return c.invalidOp(n, x, y)
	case n.Op == "+" || n.Op == "-" && x.Kind == Pointer:
		return pointer(p.pointee(), p.Space)
	case compare:
		return simple(Bool, 1)
	}
	return c.invalidOp(n, x, y)
}

// integers returns the type of an operation on two numbers: 64 bits, or bool for a comparison.
func (c *checker) integers(n *syntax.Binary, x, y Type) Type {
	if comparison(n.Op) {
		return simple(Bool, 1)
	}
	if x.Flexible && !y.Flexible {
		x.Signed, x.Flexible = y.Signed, false
	} else if y.Flexible && !x.Flexible {
		y.Signed, y.Flexible = x.Signed, false
	}
	signed := x.Signed || y.Signed || n.Op == "-"
	if !x.Equal(y) && (n.Op == "/" || n.Op == "%") && (x.Signed || y.Signed) {
		c.warn(n, "signed operands for '"+n.Op+"' can lead to undefined behavior (cast to "+
			"unsigned to silence warning)")
	}
	return integer(8, signed)
}

// unary adds the rules of a unary operation. ++ and -- are also assignments.
func (c *collector) unary(n *syntax.Unary) {
	c.visit(n.X)
	if n.Op == "++" || n.Op == "--" {
		down := n.Op == "--"
		switch x := n.X.(type) {
		case *syntax.MapAccess:
			c.increaseMap(n, x, down)
			return
		case *syntax.Variable:
			c.increaseVar(n, x, down)
			return
		}
		c.fail(n, "The "+n.Op+" operator must be applied to a map or variable")
	}
	c.s.add(n, func(in []Type) Type { return c.unaryType(n, in[0]) }, n.X)
}

func (c *collector) increaseMap(n *syntax.Unary, x *syntax.MapAccess, down bool) {
	name := x.Map.Name
	c.s.add(valueOf(name), func(in []Type) Type {
		if old := c.s.types.at(valueOf(name)); old.Kind == Pointer {
			return old
		}
		return c.valueType(name, in[0], n)
	}, n)
	c.s.add(n, func(in []Type) Type { return integer(8, in[0].Signed || down) }, x)
}

func (c *collector) increaseVar(n *syntax.Unary, x *syntax.Variable, down bool) {
	v := scoped{c.scopeOf(x.Name), x.Name}
	c.s.add(v, func(in []Type) Type {
		old := c.s.types.at(v)
		switch {
		case c.sized[v]:
			return Type{}
		case old.Kind == Pointer:
			return old
		}
		return c.varType(v, in[0], n)
	}, n)
	c.s.add(n, func(in []Type) Type {
		if old := c.s.types.at(v); c.sized[v] || old.Kind == Pointer {
			return old
		}
		return integer(8, in[0].Signed || down)
	}, x)
}

func (c *collector) unaryType(n *syntax.Unary, t Type) Type {
	deref := n.Op == "*"
	ok := t.Kind == Integer || (t.Kind == Pointer || t.Context) && deref
	if t.Kind == Bool {
		ok = n.Op == "!"
	}
	if !ok {
		c.fail(n, "The "+n.Op+" operator can not be used on expressions of type '"+
			t.String()+"'")
		return Type{}
	}
	switch {
	case deref && t.Kind == Pointer:
		res := t.pointee()
		res.Context = res.Context || t.Context
		res.Internal = t.Internal
		res.Space = t.Space
		return res
	case deref && t.Kind == C:
		return t // *args
	case deref:
		return integer(8, false)
	case n.Op == "!":
		return simple(Bool, 1)
	}
	return integer(8, t.Signed)
}
