package types

import (
	"strconv"

	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/syntax"
)

// transform replaces nodes that are literals once types are known, and comparisons of tuples
// and records by comparisons of their bytes. It reports whether it replaced any.
func (c *checker) transform() bool {
	changed := false
	syntax.Rewrite(c.file, func(n syntax.Node) syntax.Node {
		r := c.transformNode(n)
		if f, ok := n.(*syntax.Field); ok {
			changed = c.dereference(f) || changed
		}
		if r == nil {
			return nil
		}
		changed = true
		return r
	})
	return changed
}

// dereference makes the pointers that x.y goes through explicit, and reports whether there are
// any.
func (c *checker) dereference(n *syntax.Field) bool {
	t := c.types.at(n.X)
	changed := false
	for t.Kind == Pointer {
		n.X = &syntax.Unary{Loc: *n.X.At(), Op: "*", X: n.X}
		t = t.pointee()
		changed = true
	}
	return changed
}

func (c *checker) transformNode(n syntax.Node) syntax.Node {
	l := *n.At()
	switch n := n.(type) {
	case *syntax.Index:
		if c.types.at(n.X).Kind == Tuple {
			if i, ok := n.I.(*syntax.Integer); ok && !i.Negative {
				return &syntax.Element{Loc: l, X: n.X, N: i.Value}
			}
			c.fail(n, "Array-style access for tuples only valid for integer literals")
		}
	case *syntax.Cast:
		if c.types.at(n).Kind == Bool && fold.Literal(n.X) {
			switch n.X.(type) {
			case *syntax.Integer, *syntax.String, *syntax.Boolean:
				return &syntax.Boolean{Loc: *n.X.At(), Value: fold.Truth(n.X)}
			}
		}
	case *syntax.Binary:
		return c.compareGroups(n)
	case *syntax.Sizeof:
		if t := c.types.at(n.X); t.Kind != None {
			return &syntax.Integer{Loc: l, Value: t.Size}
		}
	case *syntax.Offsetof:
		return c.offset(n)
	case *syntax.TypeInfo:
		if t := c.types.at(n.Type); t.Kind != None {
			return c.typeInfo(n, t)
		}
	case *syntax.Call:
		return c.asks(n)
	}
	return nil
}

// typeInfo returns the record that typeinfo returns for a type.
func (c *checker) typeInfo(n *syntax.TypeInfo, t Type) syntax.Node {
	full := t.String()
	if len(full) > mostText {
		c.fail(n, "typeinfo: the text of the type has more than "+strconv.Itoa(mostText)+" bytes")
		return nil
	}
	l := n.Loc
	arg := func(name string, v syntax.Expr) *syntax.NamedArg {
		return &syntax.NamedArg{Loc: l, Name: name, Value: v}
	}
	return &syntax.Record{Loc: l, Elems: []*syntax.NamedArg{
		arg("btf_id", &syntax.Integer{Loc: l}),
		arg("base_type", &syntax.String{Loc: l, Value: t.Kind.String()}),
		arg("full_type", &syntax.String{Loc: l, Value: full}),
	}}
}

// asks returns the result of the library's functions that test a type, or nil.
func (c *checker) asks(n *syntax.Call) syntax.Node {
	if len(n.Args) != 1 {
		return nil
	}
	t := c.types.at(n.Args[0])
	if t.Kind == None {
		return nil
	}
	yes := false
	switch n.Name {
	case "is_str":
		yes = t.Kind == String
	case "is_ptr":
		yes = t.Kind == Pointer
	case "is_array":
		yes = t.Kind == Array
	case "is_integer":
		yes = t.Kind == Integer
	case "is_unsigned_integer":
		yes = t.Kind == Integer && t.Name == "" && !t.Signed
	default:
		return nil
	}
	return &syntax.Boolean{Loc: n.Loc, Value: yes}
}

func (c *checker) offset(n *syntax.Offsetof) syntax.Node {
	t := c.types.at(n.X)
	if t.Kind == None {
		return nil
	}
	at := uint64(0)
	for _, name := range n.Fields {
		if t.Kind != C {
			return nil
		}
		m, offset := c.member(t.BTF, name)
		if m == nil {
			return nil
		}
		at += uint64(offset) / 8
		t = FromBTF(m.Type)
	}
	return &syntax.Integer{Loc: n.Loc, Value: at}
}

// compareGroups replaces the comparison of two tuples or records by a memcmp, after it has
// cast both to the same layout.
func (c *checker) compareGroups(n *syntax.Binary) syntax.Node {
	x, y := c.types.at(n.X), c.types.at(n.Y)
	if n.Op != "==" && n.Op != "!=" || x.Kind != Tuple && x.Kind != Record || !x.compatible(y) ||
		fold.Literal(n.X) && fold.Literal(n.Y) {
		return nil
	}
	t, ok := promote(x, y)
	if !ok {
		c.fail(n, "Type mismatch for '"+n.Op+"': comparing "+x.String()+" with "+y.String())
		return nil
	}
	for _, side := range []*syntax.Expr{&n.X, &n.Y} {
		if from := c.types.at(*side); !t.Equal(from) {
			c.castGroup(side, from, t)
		}
	}
	l := n.Loc
	call := &syntax.Call{
		Loc: l, Name: "memcmp",
		Args: []syntax.Expr{n.X, n.Y, &syntax.Integer{Loc: l, Value: t.Size}},
	}
	differs := &syntax.Cast{
		Loc: l, X: call, Type: &syntax.TypeOf{Loc: l, X: &syntax.Type{Loc: l, Name: "bool"}},
	}
	if n.Op == "!=" {
		return differs
	}
	return &syntax.Unary{Loc: l, Op: "!", X: differs}
}
