package types

import (
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/script/syntax"
)

// expr adds the rules of an expression.
func (c *collector) expr(n syntax.Expr) {
	switch n := n.(type) {
	case *syntax.Integer:
		if n.Negative {
			c.s.set(n, ofNegative(n.Value))
		} else {
			c.s.set(n, ofLiteral(n.Value))
		}
	case *syntax.String:
		t := text(uint64(len(n.Value)) + 1)
		t.Space = KernelSpace
		c.s.set(n, t)
	case *syntax.Boolean:
		c.s.set(n, simple(Bool, 1))
	case *syntax.Param:
		c.s.set(n, integer(8, true))
	case *syntax.ParamCount:
		c.s.set(n, integer(8, false))
	case *syntax.Variable:
		c.variable(n)
	case *syntax.Map:
		c.mapItself(n)
	case *syntax.MapAccess:
		c.access(n)
	case *syntax.Addr:
		c.visit(n.X)
		var of any = n.X
		if m, ok := n.X.(*syntax.Map); ok {
			of = valueOf(m.Name)
		}
		// It is the kernel's, also of a variable that has a user's address.
		c.s.add(n, func(in []Type) Type { return pointer(in[0], KernelSpace) }, of)
	case *syntax.Builtin:
		c.builtinType(n)
	case *syntax.Identifier:
		c.identifier(n)
	case *syntax.Binary:
		c.visit(n.X)
		c.visit(n.Y)
		c.s.add(n, func(in []Type) Type { return c.binary(n, in[0], in[1]) }, n.X, n.Y)
	case *syntax.Unary:
		c.unary(n)
	case *syntax.If:
		c.ifExpr(n)
	case *syntax.Call:
		c.callExpr(n)
	case *syntax.Cast:
		c.castExpr(n)
	case *syntax.Tuple:
		c.tuple(n)
	case *syntax.Record:
		c.record(n)
	default:
		c.exprOfParts(n)
	}
}

// exprOfParts adds the rules of expressions that access a part of another value, or use its
// type.
func (c *collector) exprOfParts(n syntax.Expr) {
	switch n := n.(type) {
	case *syntax.Field:
		c.visit(n.X)
		p := c.probe
		c.s.add(n, func(in []Type) Type { return c.fieldType(n, in[0], p) }, n.X)
	case *syntax.Index:
		c.visit(n.X)
		c.visit(n.I)
		c.s.add(n, func(in []Type) Type { return c.elementType(n, in[0]) }, n.X)
	case *syntax.Element:
		c.visit(n.X)
		c.s.add(n, func(in []Type) Type {
			if in[0].Kind != Tuple || n.N >= uint64(len(in[0].Fields)) {
				return Type{}
			}
			return in[0].Fields[n.N].Type
		}, n.X)
	case *syntax.Comptime:
		c.visit(n.X)
		c.comptimes = append(c.comptimes, n)
	case *syntax.Sizeof:
		c.inspect(n, n.X, func(Type) bool { return true })
	case *syntax.Offsetof:
		c.inspect(n, n.X, func(t Type) bool { return c.checkOffset(n, t) })
	case *syntax.TypeInfo:
		c.inspecting++
		c.visit(n.Type)
		c.inspecting--
		c.s.add(n, func(in []Type) Type {
			return group(Record, []Field{
				{Name: "btf_id", Type: integer(8, false)},
				{Name: "base_type", Type: text(uint64(len(in[0].Kind.String())) + 1)},
				{Name: "full_type", Type: text(uint64(len(in[0].String())) + 1)},
			})
		}, n.Type)
	}
}

// inspect adds the rules of sizeof and offsetof. They become literals later; until then they
// have the smallest integer type.
func (c *collector) inspect(n, x syntax.Node, ok func(Type) bool) {
	small := integer(1, false)
	if t, isType := x.(*syntax.Type); isType {
		if t, found := c.named(t, n); found && ok(t) {
			c.s.set(n, small)
		}
		return
	}
	c.inspecting++
	c.visit(x)
	c.inspecting--
	c.s.add(n, func(in []Type) Type {
		if !ok(in[0]) {
			return Type{}
		}
		return small
	}, x)
}

// checkOffset reports whether all fields exist.
func (c *collector) checkOffset(n *syntax.Offsetof, t Type) bool {
	for _, name := range n.Fields {
		if t.Kind != C {
			c.fail(n, "'"+t.String()+"' is not a C type.")
			return false
		}
		m, _ := c.member(t.BTF, name)
		if m == nil {
			c.fail(n, "'"+t.Name+"' has no field named '"+name+"'")
			return false
		}
		t = FromBTF(m.Type)
	}
	return true
}

func (c *collector) access(n *syntax.MapAccess) {
	c.mapItself(n.Map)
	c.visit(n.Key)
	name := n.Map.Name
	if c.bad[n.Map] == hasKey {
		c.fail(n, name+" used as a map with an explicit key (non-scalar map), previously used "+
			"without an explicit key (scalar map)")
		return
	}
	c.s.add(keyOf(name), func(in []Type) Type {
		if !assignable(in[0], c.s.types.at(keyOf(name)), false) {
			c.fail(n, "Value '"+in[0].String()+"' cannot be used as a map key.")
			return Type{}
		}
		return c.keyType(name, in[0], n)
	}, n.Key)
	c.s.same(n, valueOf(name))
}

func (c *collector) tuple(n *syntax.Tuple) {
	in := make([]any, len(n.Elems))
	for i, e := range n.Elems {
		c.visit(e)
		in[i] = e
	}
	make := func(in []Type) Type {
		var fields []Field
		for _, t := range in {
			fields = append(fields, Field{Type: t})
		}
		return group(Tuple, fields)
	}
	if len(in) == 0 {
		c.s.set(n, group(Tuple, nil))
		return
	}
	c.s.add(n, make, in...)
}

func (c *collector) record(n *syntax.Record) {
	in := make([]any, len(n.Elems))
	for i, e := range n.Elems {
		c.visit(e.Value)
		in[i] = e.Value
	}
	c.s.add(n, func(in []Type) Type {
		var fields []Field
		for i, t := range in {
			fields = append(fields, Field{Name: n.Elems[i].Name, Type: t})
		}
		return group(Record, fields)
	}, in...)
}

func (c *collector) ifExpr(n *syntax.If) {
	if ct, ok := n.Cond.(*syntax.Comptime); ok {
		c.visit(ct.X)
		c.comptimes = append(c.comptimes, ct)
		return // the other branch need not have types
	}
	c.visit(n.Cond)
	then := n.Then
	if then == nil {
		then = n.Cond
	} else {
		c.visit(then)
	}
	c.visit(n.Else)
	branch := func(x syntax.Expr, first bool) {
		c.s.add(n, func(in []Type) Type {
			old := c.s.types.at(n)
			p, ok := promote(old, in[0])
			if !ok {
				a, b := old, in[0]
				if first {
					a, b = b, a
				}
				c.fail(n, "Branches must return the same type or compatible types: have '"+
					a.String()+"' and '"+b.String()+"'")
			}
			return p
		}, x)
	}
	branch(then, true)
	branch(n.Else, false)
}

func (c *collector) identifier(n *syntax.Identifier) {
	if e, ok := c.enumerator(n.Name); ok {
		c.s.set(n, enum(8, e.enum.Name, e.enum))
		return
	}
	switch {
	case c.call == "nsecs":
		switch n.Name {
		case "monotonic", "boot", "tai", "sw_tai":
			c.s.set(n, Type{Kind: TimestampMode, Mode: n.Name})
		default:
			c.s.set(n, Type{Kind: TimestampMode, Mode: "boot"})
			c.fail(n, "Invalid timestamp mode: "+n.Name)
		}
		return
	case stackMode(n.Name) && (c.call == "kstack" || c.call == "ustack" || c.call == "dw_ustack"):
		c.s.set(n, stack(true, n.Name, c.frames))
		return
	}
	if c.inspecting == 0 {
		return
	}
	if b, ok := builtinTypes[n.Name]; ok {
		c.s.set(n, b)
	} else if t := c.inspected(n.Name); t != nil {
		c.s.set(n, FromBTF(t))
	}
}

// inspected finds the type that sizeof and offsetof mean by a name without struct, union or
// enum: a typedef before the others.
func (c *collector) inspected(name string) btf.Type {
	for _, kind := range []string{"", "struct ", "union ", "enum "} {
		if t := c.lookup(kind + name); t != nil {
			return t
		}
	}
	return nil
}

// fieldType returns the type of a field, through any pointers.
func (c *collector) fieldType(n *syntax.Field, in Type, p *syntax.Probe) Type {
	t := in
	for t.Kind == Pointer {
		t = t.pointee()
	}
	switch t.Kind {
	case Record:
		if f := t.field(n.Name); f != nil {
			return f.Type
		}
		c.fail(n, "Record does not contain a field named '"+n.Name+"'")
		return Type{}
	case C:
	default:
		c.fail(n, "Can not access field '"+n.Name+"' on expression of type '"+t.String()+"'")
		return Type{}
	}
	m, _ := c.member(t.BTF, n.Name)
	if m == nil {
		if t.Args && p != nil && p.Points[0].Provider != "tracepoint" {
			c.fail(n, "Can't find function parameter "+n.Name)
		} else {
			c.fail(n, "Struct/union of type '"+t.Name+"' does not contain a field named '"+n.Name+"'")
		}
		return Type{}
	}
	for _, tag := range tags(m.Type) {
		if tag != "rcu" && !t.Args {
			c.fail(n, "Attempting to access pointer field '"+n.Name+
				"' with unsupported tag attribute: "+tag)
		}
	}
	res := c.memberType(t.BTF, m)
	if m.BitfieldSize > 0 && res.Kind == Integer {
		res.Name, res.BTF = "", nil
	}
	if !t.Args {
		res.Context = in.Context && (res.Kind == Array || res.Kind == C)
		res.Internal = in.Internal
	}
	res.Space = t.Space
	return res
}

// elementType returns the type of x[i].
func (c *collector) elementType(n *syntax.Index, t Type) Type {
	var e Type
	switch t.Kind {
	case Array:
		e = *t.Elem
	case Pointer:
		e = t.pointee()
	case String:
		e = integer(1, true)
	case Tuple:
		i, ok := n.I.(*syntax.Integer)
		if !ok || i.Negative {
			break
		}
		if i.Value >= uint64(len(t.Fields)) {
			c.fail(n, "Invalid tuple index: "+strconv.FormatUint(i.Value, 10)+". Found "+
				strconv.Itoa(len(t.Fields))+" elements in tuple.")
			break
		}
		e = t.Fields[i.Value].Type
	default:
		c.fail(n, "The array index operator [] can only be used on arrays, pointers, and tuples, "+
			"found "+t.String()+".")
	}
	e.Space = t.Space
	e.Internal = t.Internal && e.Kind != Pointer && t.Kind != Pointer
	return e
}

func (c *collector) castExpr(n *syntax.Cast) {
	c.visit(n.X)
	p := c.probe
	c.s.add(n, func(in []Type) Type { return castType(c.s.types.at(n), in[0], p) }, n.X)
	if t, ok := n.Type.X.(*syntax.Type); ok {
		t, ok := c.named(t, n.Type)
		if !ok {
			return
		}
		if x := c.s.types.at(n.X); x.Kind != None {
			t = castType(t, x, p)
		}
		c.s.set(n, t)
		return
	}
	c.visit(n.Type)
	c.s.add(n, func(in []Type) Type {
		if x := c.s.types.at(n.X); x.Kind != None {
			return castType(in[0], x, p)
		}
		return in[0]
	}, n.Type)
}

// castType completes the type of a cast from the type of its operand: arrays without a length
// get one, and addresses their address space.
func castType(t, from Type, p *syntax.Probe) Type {
	if t.Kind == None {
		return t
	}
	if t.Kind == Array {
		if t.Len == 0 && t.Elem.Size != 0 && from.Size%t.Elem.Size == 0 {
			t = array(from.Size/t.Elem.Size, *t.Elem)
		}
		t.Internal = t.Internal || from.Kind == Integer || from.Kind == Bool
	}
	if from.Context && t.Kind != Integer {
		t.Context = true
	}
	if t.Space = from.Space; t.Space == NoSpace {
		if t.Space = space(p); p == nil {
			t.Space = KernelSpace
		}
	}
	return t
}

// kernelStruct returns the type of a pointer to a struct of the kernel.
func (c *collector) kernelStruct(name string, context bool) Type {
	t := Type{Kind: C, Name: name, BTF: &btf.Struct{Name: name[len("struct "):]}}
	if found := c.kernelType(name); found != nil {
		t = FromBTF(found)
	}
	res := pointer(t, KernelSpace)
	res.Context = context
	return res
}
