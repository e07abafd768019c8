package types

import (
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/script/syntax"
)

// visit adds the rules of a node and of those below it.
func (c *collector) visit(n syntax.Node) {
	if c.full() {
		return
	}
	switch n := n.(type) {
	case *syntax.Probe:
		c.probe = n
		c.visit(n.Body)
	case *syntax.Func:
		c.function(n)
	case *syntax.ExprStmt:
		c.visit(n.X)
	case *syntax.Discard:
		c.visit(n.X)
	case *syntax.Jump:
		if n.Value != nil {
			c.visit(n.Value)
		}
	case *syntax.Assign:
		c.assign(n)
	case *syntax.VarDecl:
		c.declare(n)
	case *syntax.While:
		c.visit(n.Cond)
		c.visit(n.Body)
	case *syntax.Unroll:
		c.visit(n.Count)
		c.visit(n.Body)
	case *syntax.For:
		c.loop(n)
	case *syntax.Block:
		c.push(n)
		for _, s := range n.Stmts {
			c.visit(s)
		}
		if n.Value != nil {
			c.visit(n.Value)
			c.s.same(n, n.Value)
		}
		c.pop()
	case syntax.Expr:
		c.expr(n)
	case *syntax.TypeOf:
		c.typeOf(n)
	}
}

func (c *collector) function(n *syntax.Func) {
	c.push(n)
	c.probe = nil
	for _, a := range n.Args {
		v := scoped{n, a.Var.Name}
		if t, ok := a.Type.X.(*syntax.Type); ok {
			if t, ok := c.named(t, a.Type); ok {
				c.s.set(v, t)
				c.s.set(a.Type, t)
				c.sized[v] = t.Size != 0
			}
		} else {
			c.sized[v] = true
			c.visit(a.Type)
			c.s.same(v, a.Type)
		}
		c.variable(a.Var)
	}
	c.visit(n.Body)
	if n.Result != nil {
		c.visit(n.Result)
	}
	c.pop()
}

func (c *collector) assign(n *syntax.Assign) {
	if m, ok := n.Target.(*syntax.MapAccess); ok {
		c.assignMap(n, m)
		return
	}
	c.visit(n.Value)
	c.visit(n.Target)
	name := ""
	switch t := n.Target.(type) {
	case *syntax.Variable:
		name = t.Name
	case *syntax.VarDecl:
		name = t.Var.Name
	}
	v := scoped{c.scopeOf(name), name}
	if c.sized[v] { // the assigned value is checked against it later
		c.s.add(v, func(in []Type) Type {
			if in[0].Space == NoSpace { // a declaration does not say in whose memory an address is
				in[0].Space = in[1].Space
			}
			return in[0]
		}, v, n.Value)
		return
	}
	c.s.add(v, func(in []Type) Type {
		if !assignable(in[0], c.s.types.at(v), false) {
			c.fail(n, "Value '"+in[0].String()+"' cannot be assigned to a scratch variable.")
			return Type{}
		}
		return c.varType(v, in[0], n)
	}, n.Value)
}

// examples are calls of the aggregations that cannot be copied, for errors.
var examples = map[Kind]string{
	Count: "count()", Sum: "sum(retval)", Min: "min(retval)", Max: "max(retval)",
	Avg: "avg(retval)", Hist: "hist(retval)", Lhist: "lhist(rand %10, 0, 10, 1)",
	Tseries: "tseries(rand %10, 10s, 1)", Stats: "stats(arg2)",
}

func (c *collector) assignMap(n *syntax.Assign, m *syntax.MapAccess) {
	c.visit(m)
	c.visit(n.Value)
	name := m.Map.Name
	c.s.add(valueOf(name), func(in []Type) Type {
		t := in[0]
		if assignable(t, c.s.types.at(valueOf(name)), true) {
			return c.valueType(name, t, n)
		}
		example, ok := examples[t.Kind]
		if !ok {
			c.fail(n, "Value '"+t.String()+"' cannot be assigned to a map.")
			return Type{}
		}
		e := c.fail(n, "Map value '"+t.String()+"' cannot be assigned from one map to another. "+
			"The function that returns this type must be called directly e.g. `"+name+" = "+
			example+";`.")
		if from, ok := n.Value.(*syntax.MapAccess); ok && t.castable() && e.Hints == nil {
			e.Hints = []string{"Add a cast to integer if you want the value of the aggregate, " +
				"e.g. `" + name + " = (int64)" + from.Map.Name + ";`."}
		}
		return Type{}
	}, n.Value)
}

func (c *collector) declare(n *syntax.VarDecl) {
	if n.Type == nil {
		c.variable(n.Var)
		return
	}
	v := scoped{c.here().node, n.Var.Name}
	if t, ok := n.Type.X.(*syntax.Type); ok {
		t, ok := c.named(t, n.Type)
		if !ok {
			return
		}
		c.s.set(v, t)
		c.s.set(n.Type, t)
		if t.Size != 0 {
			c.sized[v] = true
		}
	} else {
		c.sized[v] = true
		c.visit(n.Type)
		c.s.same(v, n.Type)
	}
	c.variable(n.Var)
}

func (c *collector) variable(n *syntax.Variable) {
	scope := c.scopeOf(n.Name)
	if scope == nil {
		here := c.here()
		here.names = append(here.names, n.Name)
		scope = here.node
		c.vars[n.Name] = scope
	}
	v := scoped{scope, n.Name}
	c.s.same(n, v)
	if c.inspecting > 0 {
		c.introspected[v] = true
	}
}

func (c *collector) loop(n *syntax.For) {
	m, overMap := n.Over.(*syntax.Map)
	if overMap && c.bad[m] == loop {
		c.fail(m, m.Name+" has no explicit keys (scalar map), and cannot be used for iteration")
	}
	c.push(n)
	c.variable(n.Var)
	v := scoped{n, n.Var.Name}
	if overMap {
		c.mapItself(m)
		c.s.add(v, func(in []Type) Type {
			if t := in[1]; t.manyKeys() || t.Kind == Stats {
				c.fail(m, "Loop expression does not support type: "+t.String())
			}
			return group(Tuple, []Field{{Type: in[0]}, {Type: in[1]}})
		}, keyOf(m.Name), valueOf(m.Name))
	} else if r, ok := n.Over.(*syntax.Range); ok {
		c.visit(r.Begin)
		c.visit(r.End)
		c.s.add(v, func(in []Type) Type { return c.rangeType(r, in[0], in[1]) }, r.Begin, r.End)
	}
	c.visit(n.Body)
	c.pop()
}

func (c *collector) rangeType(r *syntax.Range, from, to Type) Type {
	if from.Kind != Integer {
		c.fail(r, "Loop range requires an integer for the start value")
	}
	if to.Kind != Integer {
		c.fail(r, "Loop range requires an integer for the end value")
	}
	if from.Kind == Integer && to.Kind == Integer && from.Size != to.Size {
		return promoteInteger(from, to)
	}
	return from
}

// mapItself adds the rules of a map that is named without reading its value.
func (c *collector) mapItself(m *syntax.Map) {
	if c.bad[m] == noKey {
		c.fail(m, m.Name+" used as a map without an explicit key (scalar map), previously used "+
			"with an explicit key (non-scalar map)")
		return
	}
	v := valueOf(m.Name)
	if !c.seen[v] {
		c.seen[v] = true
		c.values = append(c.values, v)
	}
	if o, ok := c.opts[m.Name]; ok {
		c.s.set(v, o.Type)
		c.s.set(keyOf(m.Name), integer(8, true))
	}
	if c.inspecting > 0 {
		c.introspected[v] = true
		c.introspected[keyOf(m.Name)] = true
	}
}

func (c *collector) typeOf(n *syntax.TypeOf) {
	if t, ok := n.X.(*syntax.Type); ok {
		if t, ok := c.named(t, n); ok {
			c.s.set(n, t)
		}
		return
	}
	c.inspecting++
	c.visit(n.X)
	c.inspecting--
	if m, ok := n.X.(*syntax.Map); ok {
		c.s.same(n, keyOf(m.Name))
	} else {
		c.s.same(n, n.X)
	}
}

// builtinTypes are the types that have a name in the language.
var builtinTypes = map[string]Type{
	"bool": simple(Bool, 1), "void": simple(Void, 0),
	"int8": integer(1, true), "int16": integer(2, true), "int32": integer(4, true),
	"int64": integer(8, true), "uint8": integer(1, false), "uint16": integer(2, false),
	"uint32": integer(4, false), "uint64": integer(8, false),
	"min_t": aggregate(Min, true), "max_t": aggregate(Max, true), "sum_t": aggregate(Sum, true),
	"avg_t": aggregate(Avg, true), "stats_t": aggregate(Stats, true),
	"umin_t": aggregate(Min, false), "umax_t": aggregate(Max, false),
	"usum_t": aggregate(Sum, false), "uavg_t": aggregate(Avg, false),
	"ustats_t": aggregate(Stats, false), "count_t": aggregate(Count, false),
	"timestamp": simple(Timestamp, 16), "macaddr_t": {Kind: MAC, Size: 6, Internal: true},
	"cgroup_path_t": simple(CgroupPath, 16), "string": text(0), "buffer": buffer(0),
	"inet": {Kind: Inet, Internal: true},
}

// named returns the type that is written in the script, and sets it as the type of t.
func (c *collector) named(t *syntax.Type, n syntax.Node) (Type, bool) {
	res, ok := c.written(t, n)
	if ok {
		c.s.set(t, res)
	}
	return res, ok
}

// written returns the type that is written in the script. What is not declared there is a type of the
// program that the probe is in, or of the kernel.
func (c *collector) written(t *syntax.Type, n syntax.Node) (Type, bool) {
	switch t.Kind {
	case "*":
		e, ok := c.written(t.Elem, n)
		return pointer(e, NoSpace), ok
	case "[]":
		e, ok := c.written(t.Elem, n)
		if t.Elem.Kind == "" && ok {
			switch e.Kind {
			case String:
				if e.Size == 0 {
					return text(t.Len), true
				}
			case Inet:
				return Type{Kind: Inet, Size: t.Len, Internal: true}, true
			case Buffer:
				return buffer(t.Len), true
			}
		}
		return array(t.Len, e), ok
	case "enum":
		e, _ := btf.UnderlyingType(c.lookup("enum " + t.Name)).(*btf.Enum)
		return enum(8, t.Name, e), true
	case "":
		if b, ok := builtinTypes[t.Name]; ok {
			return b, true
		}
	}
	name := t.Name
	if t.Kind != "" {
		name = t.Kind + " " + name
	}
	if found := c.lookup(name); found != nil {
		return FromBTF(found), true
	}
	if t.Kind == "" {
		for _, k := range []string{"struct ", "union "} {
			if found := c.lookup(k + name); found != nil {
				return FromBTF(found), true
			}
		}
	}
	c.fail(n, "Cannot resolve unknown type \""+name+"\"\n")
	return Type{}, false
}

// lookup finds a type by its name.
func (c *collector) lookup(name string) btf.Type {
	if c.probe != nil && c.defs.types[name] == nil { // of several programs, the first that has it
		for _, p := range c.probe.Points {
			if t := c.sys.TypeIn(p, name); t != nil {
				return t
			}
		}
	}
	return c.kernelType(name)
}
