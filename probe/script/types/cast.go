package types

import (
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
)

// cast inserts bpftrace's implicit casts: of assigned values, keys and operands, to the type
// that was determined for the variable, map or operation.
func (c *checker) cast() {
	c.top(func(top syntax.Node) {
		f, _ := top.(*syntax.Func)
		syntax.Rewrite(top, func(n syntax.Node) syntax.Node {
			if !c.full() && c.added <= mostAdded {
				c.castNode(n, f)
			}
			return nil
		})
	})
	if c.added > mostAdded {
		c.tooMany(c.file)
	}
}

func (c *checker) castNode(n syntax.Node, f *syntax.Func) {
	switch n := n.(type) {
	case *syntax.Assign:
		c.castAssign(n)
	case *syntax.Binary:
		x, y := c.types.at(n.X), c.types.at(n.Y)
		if x.Kind == String || y.Kind == String {
			return // strings of different lengths can be compared
		}
		t := c.types.at(n)
		if comparison(n.Op) {
			p, ok := promote(x, y)
			if !ok {
				return
			}
			t = p
		}
		c.castTo(&n.X, x, t)
		c.castTo(&n.Y, y, t)
	case *syntax.Call:
		c.castCall(n)
	case *syntax.For:
		if r, ok := n.Over.(*syntax.Range); ok {
			from, to := c.types.at(r.Begin), c.types.at(r.End)
			t := to
			if from.Size > to.Size {
				t = from
			}
			if !from.Equal(to) {
				c.castTo(&r.Begin, from, t)
				c.castTo(&r.End, to, t)
			}
		}
	case *syntax.If:
		for _, side := range []*syntax.Expr{&n.Then, &n.Else} {
			if *side == nil {
				continue
			}
			if t := c.types.at(*side); t.Kind != None && !t.Equal(c.types.at(n)) {
				c.castTo(side, t, c.types.at(n))
			}
		}
	case *syntax.Jump:
		c.castReturn(n, f)
	case *syntax.MapAccess:
		t, want := c.types.at(n.Key), c.types.at(keyOf(n.Map.Name))
		if want.Kind != None && t.Kind != None && !c.castTo(&n.Key, t, want) {
			c.fail(n, "Type mismatch for "+n.Map.Name+": trying to assign key of type '"+t.String()+
				"' when map already has a key type '"+want.String()+"'")
		}
	}
}

func (c *checker) castAssign(n *syntax.Assign) {
	t := c.types.at(n.Value)
	switch target := n.Target.(type) {
	case *syntax.MapAccess:
		want := c.types.at(valueOf(target.Map.Name))
		if !want.Equal(t) && !c.castTo(&n.Value, t, want) {
			c.fail(n, "Type mismatch for "+
				target.Map.Name+": trying to assign value of type '"+t.String()+
				"' when map already has a value type '"+want.String()+"'")
		}
		return
	case *syntax.VarDecl:
		c.castVar(n, target.Var, t)
	case *syntax.Variable:
		c.castVar(n, target, t)
	}
}

func (c *checker) castVar(n *syntax.Assign, v *syntax.Variable, t Type) {
	want := c.types.at(v)
	if !want.Equal(t) && !c.castTo(&n.Value, t, want) {
		c.fail(n, mismatch(v.Name, t, "variable", want))
	}
}

func (c *checker) castCall(n *syntax.Call) {
	if aggregates(n.Name) {
		if m, ok := n.Args[0].(*syntax.Map); ok {
			c.castTo(&n.Args[1], c.types.at(n.Args[1]), c.types.at(keyOf(m.Name)))
		}
		return
	}
	switch n.Name {
	case "has_key", "find", "delete":
		if m, ok := n.Args[0].(*syntax.Map); ok && len(n.Args) > 1 {
			t, want := c.types.at(n.Args[1]), c.types.at(keyOf(m.Name))
			if want.Kind != None && t.Kind != None {
				c.castTo(&n.Args[1], t, want)
			}
		}
	case "percpu_kaddr":
		if len(n.Args) == 2 {
			if t := c.types.at(n.Args[1]); t.Kind == Integer && !t.Equal(integer(4, false)) {
				n.Args[1] = c.castNodeTo(n.Args[1], integer(4, false))
			}
		}
	case "usym":
		if t := c.types.at(n.Args[0]); t.Kind == Integer && t.Size != 8 {
			c.castTo(&n.Args[0], t, integer(8, false))
		}
	default:
		c.castArguments(n)
	}
}

func (c *checker) castReturn(n *syntax.Jump, f *syntax.Func) {
	if n.Keyword != "return" {
		return
	}
	if f == nil {
		if n.Value != nil {
			if t := c.types.at(n.Value); t.Kind == Integer && t.Size != 8 {
				c.castTo(&n.Value, t, integer(8, true))
			}
		}
		return
	}
	want := c.types.at(f.Result)
	t := simple(Void, 0)
	if n.Value != nil {
		t = c.types.at(n.Value)
	}
	if n.Value == nil && want.Kind == Void || n.Value != nil && c.castTo(&n.Value, t, want) {
		return
	}
	c.fail(n, "Function "+f.Name+" is of type "+want.String()+", cannot return "+t.String())
}

// castTo casts an expression, if needed, and reports whether the types allow it.
func (c *checker) castTo(x *syntax.Expr, from, to Type) bool {
	switch {
	case from.Equal(to), from.Kind == to.Kind && from.castable():
		return true
	case (from.Kind == Integer || from.castable()) && (to.Kind == Integer || to.castable()):
		return c.castInteger(x, from, to)
	case from.Kind != to.Kind:
		return false
	}
	switch to.Kind {
	case String:
		if from.Size == to.Size {
			return true
		}
		if !from.fits(to) {
			return false
		}
		*x = c.castNodeTo(*x, to)
		return true
	case Tuple, Record:
		return c.castGroup(x, from, to)
	case Pointer:
		*x = c.castNodeTo(*x, to)
		return true
	}
	return to.Kind == Buffer
}

func (c *checker) castInteger(x *syntax.Expr, from, to Type) bool {
	i, isLiteral := (*x).(*syntax.Integer)
	if isLiteral && !holds(to, i) {
		return false
	}
	if !isLiteral && !from.castable() && !from.fits(to) {
		c.warn(*x, "Expression of type: "+from.String()+" being cast to type: "+to.String()+
			". This may cause unexpected results. Use an explicit cast to suppress this warning.")
	}
	*x = c.castNodeTo(*x, to)
	return true
}

// holds reports whether a type has the value of a literal.
func holds(t Type, n *syntax.Integer) bool {
	width := 8 * t.Size
	switch {
	case n.Negative:
		return t.Signed && n.Value <= 1<<(width-1)
	case t.Signed:
		return n.Value < 1<<(width-1)
	}
	return width >= 64 || n.Value < 1<<width
}

// castNodeTo returns an implicit cast of x. Casts to the same integer type share its node.
func (c *checker) castNodeTo(x syntax.Expr, to Type) syntax.Expr {
	l := *x.At()
	c.added++
	if to.Kind != Integer || to.Name != "" {
		return &syntax.Cast{Loc: l, Type: &syntax.TypeOf{Loc: l, X: typeNode(l, to)}, X: x}
	}
	key := integerName{to.Size, to.Signed}
	t := c.casts[key]
	if t == nil {
		t = &syntax.TypeOf{Loc: l, X: typeNode(l, to)}
		c.casts[key] = t
	}
	return &syntax.Cast{Loc: l, Type: t, X: x}
}

// typeNode returns the syntax of a type.
func typeNode(l syntax.Loc, t Type) *syntax.Type {
	switch t.Kind {
	case Pointer:
		return &syntax.Type{Loc: l, Kind: "*", Elem: typeNode(l, *t.Elem)}
	case Array:
		return &syntax.Type{Loc: l, Kind: "[]", Len: t.Len, Elem: typeNode(l, *t.Elem)}
	case String, Buffer, Inet:
		base := &syntax.Type{Loc: l, Name: t.Kind.String()}
		if t.Size == 0 {
			return base
		}
		return &syntax.Type{Loc: l, Kind: "[]", Len: t.Size, Elem: base}
	case C:
		kind, name, _ := strings.Cut(t.Name, " ")
		return &syntax.Type{Loc: l, Kind: kind, Name: name}
	case Integer:
		if t.Name != "" {
			return &syntax.Type{Loc: l, Kind: "enum", Name: t.Name}
		}
	}
	return &syntax.Type{Loc: l, Name: t.String()}
}

// castGroup casts the elements of a tuple or record.
func (c *checker) castGroup(x *syntax.Expr, from, to Type) bool {
	if b, ok := (*x).(*syntax.Block); ok {
		return c.castGroup(&b.Value, from, to)
	}
	if from.Kind != to.Kind || len(from.Fields) != len(to.Fields) {
		return false
	}
	l := *(*x).At()
	elems := make([]syntax.Expr, len(from.Fields))
	find := to.fields()
	for i, f := range from.Fields {
		switch lit := (*x).(type) {
		case *syntax.Tuple:
			elems[i] = lit.Elems[i]
		case *syntax.Record:
			elems[i] = lit.Elems[i].Value
		default:
			if !c.grow(*x) {
				return false
			}
			if elems[i] = (&syntax.Element{Loc: l, X: syntax.Clone(*x), N: uint64(i)}); f.Name != "" {
				elems[i] = &syntax.Field{Loc: l, X: syntax.Clone(*x), Name: f.Name}
			}
		}
		want := &to.Fields[i]
		if to.Kind == Record {
			if want = find(f.Name); want == nil {
				return false
			}
		}
		if !c.castTo(&elems[i], f.Type, want.Type) {
			return false
		}
	}
	if to.Kind == Tuple {
		*x = &syntax.Tuple{Loc: l, Elems: elems}
		return true
	}
	r := &syntax.Record{Loc: l}
	for i, e := range elems {
		r.Elems = append(r.Elems, &syntax.NamedArg{Loc: l, Name: from.Fields[i].Name, Value: e})
	}
	*x = r
	return true
}
