package types

import (
	"maps"
	"slices"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/script/syntax"
)

// after checks the uses of values against their types.
func (c *checker) after() {
	v := &useChecker{
		checker: c, kinds: map[string]string{}, used: map[string]bool{}, sizes: map[string]string{},
	}
	decls := map[string]*syntax.MapDecl{}
	for _, d := range c.file.Decls {
		if d, ok := d.(*syntax.MapDecl); ok {
			v.mapDecl(d)
			decls[d.Name] = d
		}
	}
	c.top(v.topLevel)
	for _, name := range slices.Sorted(maps.Keys(decls)) {
		if !v.used[name] {
			c.warn(decls[name], "Unused map: "+name)
		}
	}
}

type useChecker struct {
	*checker
	kinds map[string]string // kinds that maps are declared with
	used  map[string]bool   // names of maps that are used
	sizes map[string]string // parameters of the maps' histograms and series
	loops int               // around this node
	fors  int               // those of them that are for loops
	probe *syntax.Probe
}

func (c *useChecker) topLevel(n syntax.Node) {
	f, ok := n.(*syntax.Func)
	if !ok {
		c.probe = n.(*syntax.Probe)
		c.visit(c.probe.Body)
		return
	}
	c.probe = nil
	for _, a := range f.Args {
		if c.types.at(a.Type).Kind == None {
			c.fail(a, "Unable to resolve argument type.")
		}
	}
	c.visit(f.Body)
	if f.Result != nil && c.types.at(f.Result).Kind == None {
		c.fail(f.Result, "Unable to resolve suitable return type.")
	}
}

// mapKinds are the kinds of maps that can be declared. The value is true for kinds that have
// separate values for each CPU.
var mapKinds = map[string]bool{
	"hash": false, "lruhash": false, "percpuhash": true, "percpulruhash": true,
}

func (c *useChecker) mapDecl(n *syntax.MapDecl) {
	if _, ok := mapKinds[n.Kind]; !ok {
		e := c.fail(n, "Invalid bpf map type: "+n.Kind)
		e.Hints = []string{"Valid map types: hash, lruhash, percpuhash, percpulruhash"}
		return
	}
	c.kinds[n.Name] = n.Kind
}

// visit checks a node and those below it.
func (c *useChecker) visit(n syntax.Node) {
	if c.full() {
		return
	}
	switch n := n.(type) {
	case *syntax.Block:
		for _, s := range n.Stmts {
			c.visit(s)
		}
		if n.Value != nil {
			c.visit(n.Value)
		}
	case *syntax.ExprStmt:
		c.visit(n.X)
		c.discarded(n)
	case *syntax.Discard:
		c.visit(n.X)
	case *syntax.Jump:
		if n.Value != nil {
			c.visit(n.Value)
			if t := c.types.at(n.Value); c.probe != nil && n.Keyword == "return" && t.Kind != Integer {
				c.fail(n, "Probe return values can only be integers. Found "+t.String())
			}
		}
	case *syntax.Assign:
		c.assign(n)
	case *syntax.VarDecl:
		c.declare(n)
	case *syntax.While:
		c.visit(n.Cond)
		c.loop(n.Body)
	case *syntax.Unroll:
		c.visit(n.Body)
	case *syntax.For:
		c.forLoop(n)
	case syntax.Expr:
		c.expr(n)
	}
}

func (c *useChecker) loop(b *syntax.Block) {
	c.loops++
	c.visit(b)
	c.loops--
}

func (c *useChecker) forLoop(n *syntax.For) {
	if r, ok := n.Over.(*syntax.Range); ok {
		if !c.sys.Has("loop") {
			c.fail(n, "Missing required kernel feature: loop")
		}
		c.visit(r.Begin)
		c.visit(r.End)
	} else {
		c.visit(n.Over)
	}
	c.fors++
	c.loop(n.Body)
	c.fors--
	if c.fors > 0 {
		return // the outermost looks at all
	}
	for in := range syntax.All(n.Body) {
		if b, ok := in.(*syntax.Builtin); ok && c.types.at(b).Context {
			c.fail(b, "'"+b.Name+"' builtin is not allowed in a for-loop")
		}
	}
}

func (c *useChecker) discarded(n *syntax.ExprStmt) {
	if u, ok := n.X.(*syntax.Unary); ok && (u.Op == "++" || u.Op == "--") {
		return
	}
	if t := c.types.at(n.X); t.Kind != None && t.Kind != Void {
		if call, ok := n.X.(*syntax.Call); ok && call.Name == "delete" {
			return
		}
		c.warn(n, "Return value discarded.")
	}
}

func (c *useChecker) assign(n *syntax.Assign) {
	var v *syntax.Variable
	switch t := n.Target.(type) {
	case *syntax.MapAccess:
		c.visit(t)
		c.visit(n.Value)
		return
	case *syntax.VarDecl:
		c.visit(n.Value)
		c.visit(t)
		v = t.Var
	case *syntax.Variable:
		c.visit(n.Value)
		v = t
	}
	if c.types.at(v).Kind == None {
		c.fail(n, "Invalid expression for assignment")
	}
}

func (c *useChecker) declare(n *syntax.VarDecl) {
	if n.Type == nil {
		return
	}
	c.asked(n.Type.X)
	switch t := c.types.at(n.Type); {
	case t.Kind == None:
		c.fail(n.Type, "Type cannot be resolved: still none")
	case t.aggregation() || t.Kind == Void:
		c.fail(n.Type, "Invalid variable declaration type: "+t.String())
	}
}

func (c *useChecker) expr(n syntax.Expr) {
	switch n := n.(type) {
	case *syntax.Identifier:
		switch n.Name {
		case "curr_ns", "init", "current_pid", "current_tid":
			return
		}
		if c.types.at(n).Kind == None {
			c.fail(n, "Unknown identifier: '"+n.Name+"'")
		}
	case *syntax.Variable:
		if c.types.at(n).Kind == None {
			c.fail(n, "Could not resolve the type of this variable")
		}
	case *syntax.Map:
		c.mapItself(n)
	case *syntax.MapAccess:
		c.access(n)
	case *syntax.Addr:
		if v, ok := n.X.(*syntax.Variable); ok {
			if c.types.at(n).Kind == None {
				c.fail(n, "No type available for variable "+v.Name)
			}
			return
		}
		c.visit(n.X)
	case *syntax.Binary:
		c.visit(n.X)
		c.visit(n.Y)
		c.binaryUse(n)
	case *syntax.Unary:
		c.visit(n.X)
	case *syntax.If:
		c.condition(n)
	case *syntax.Call:
		c.callUse(n)
	case *syntax.Cast:
		c.visit(n.X)
		c.asked(n.Type.X)
		c.castUse(n)
	case *syntax.Tuple:
		for _, e := range n.Elems {
			c.element(e, "tuple")
		}
	case *syntax.Record:
		for _, e := range n.Elems {
			c.element(e.Value, "record")
		}
	case *syntax.Block:
		c.visit(n)
	default:
		c.part(n)
	}
}

func (c *useChecker) part(n syntax.Expr) {
	switch n := n.(type) {
	case *syntax.Field:
		c.visit(n.X)
		c.fieldUse(n)
	case *syntax.Index:
		c.visit(n.X)
		c.visit(n.I)
		c.index(n)
	case *syntax.Element:
		c.visit(n.X)
		t := c.types.at(n.X)
		if t.Kind != Tuple {
			c.fail(n, "Can not access index '"+strconv.FormatUint(n.N, 10)+
				"' on expression of type '"+t.String()+"'")
		} else if n.N >= uint64(len(t.Fields)) {
			c.fail(n, "Invalid tuple index: "+strconv.FormatUint(n.N, 10)+". Found "+
				strconv.Itoa(len(t.Fields))+" elements in tuple.")
		}
	case *syntax.Comptime:
		c.visit(n.X)
	case *syntax.Sizeof:
		c.asked(n.X)
	case *syntax.Offsetof:
		c.asked(n.X)
	case *syntax.TypeInfo:
		c.asked(n.Type.X)
	}
}

// asked visits an expression of which only the type is used.
func (c *useChecker) asked(n syntax.Node) {
	if x, ok := n.(syntax.Expr); ok {
		c.visit(x)
	}
}

func (c *useChecker) element(x syntax.Expr, of string) {
	c.visit(x)
	if t := c.types.at(x); t.manyKeys() {
		c.fail(x, "Map type "+t.String()+" cannot exist inside a "+of+".")
	}
}

func (c *useChecker) condition(n *syntax.If) {
	c.visit(n.Cond)
	if n.Then != nil {
		c.visit(n.Then)
	}
	c.visit(n.Else)
	switch t := c.types.at(n.Cond); t.Kind {
	case Integer, Pointer, Bool:
	default:
		c.fail(n, "Invalid condition: "+t.Kind.String())
	}
}

func (c *useChecker) mapItself(n *syntax.Map) {
	c.used[n.Name] = true
	v, k := c.types.at(valueOf(n.Name)), c.types.at(keyOf(n.Name))
	if v.Kind == None || k.Kind == None {
		c.fail(n, "Undefined map: "+n.Name)
	}
	kind, declared := c.kinds[n.Name]
	if !declared || mapKinds[kind] == v.aggregation() {
		return
	}
	is := "hash"
	if v.aggregation() {
		is = "percpuhash"
	}
	c.fail(n, "Incompatible map types. Type from declaration: "+kind+
		". Type from value/key type: "+is)
}

func (c *useChecker) access(n *syntax.MapAccess) {
	c.mapItself(n.Map)
	c.visit(n.Key)
	if c.types.at(valueOf(n.Map.Name)).castable() && !c.sys.Has("map_lookup_percpu_elem") {
		c.fail(n, "Missing required kernel feature: map_lookup_percpu_elem")
	}
	k := c.types.at(n.Key)
	if k.Kind == None || k.Kind == Void {
		c.fail(n.Key, "Invalid map key type: "+k.String())
	}
	check := func(t Type) {
		if t.Kind == Pointer && t.Context {
			c.fail(n.Key, "context cannot be part of a map key")
		}
		if t.manyKeys() || t.Kind == Stats {
			c.fail(n.Key, t.String()+" cannot be part of a map key")
		}
	}
	check(k)
	if k.Kind == Tuple {
		for _, f := range k.Fields {
			check(f.Type)
		}
	}
}

func (c *useChecker) fieldUse(n *syntax.Field) {
	t := c.types.at(n.X)
	for t.Kind == Pointer {
		t = t.pointee()
	}
	if !t.Args || c.probe == nil || c.probe.Points[0].Provider != "tracepoint" {
		return
	}
	if m, at := c.member(t.BTF, n.Name); m != nil && at < 8*8 {
		c.fail(n, "BPF does not support accessing common tracepoint fields")
	}
}

func (c *useChecker) index(n *syntax.Index) {
	t := c.types.at(n.X)
	if t.Kind == Pointer && t.pointee().Size == 0 {
		c.fail(n, "The array index operator [] cannot be used on a pointer to an unsized type "+
			"(void *).")
	}
	i, ok := natural(n.I)
	if !ok {
		if it := c.types.at(n.I); it.Kind != Integer || it.Signed && !it.Flexible {
			c.fail(n, "The array index operator [] only accepts non-negative integer indices. Got: "+
				it.String())
		}
		return
	}
	size := uint64(0)
	switch t.Kind {
	case Array:
		size = t.Len
	case String:
		size = t.Size
	}
	if size != 0 && i >= size {
		c.fail(n, "the index "+strconv.FormatUint(i, 10)+" is out of bounds for array of size "+
			strconv.FormatUint(size, 10))
	}
}

func (c *useChecker) binaryUse(n *syntax.Binary) {
	x, y := c.types.at(n.X), c.types.at(n.Y)
	equality := n.Op == "==" || n.Op == "!="
	switch {
	case x.number() && y.number(), x.Kind == Pointer || y.Kind == Pointer:
	case x.Kind == Array && y.Kind == Array:
		if !equality {
			c.fail(n, "The "+n.Op+" operator cannot be used on arrays.")
		}
		if x.Len != y.Len {
			c.fail(n, "Only arrays of same size support comparison operators.")
		}
		if x.Elem.Kind != Integer || !x.Equal(y) {
			c.fail(n, "Only arrays of same sized integer support comparison operators.")
		}
	case !x.compatible(y):
		e := c.fail(n, "Type mismatch for '"+n.Op+"': comparing "+x.String()+" with "+y.String())
		e.Notes = []syntax.Note{
			{Loc: *n.X.At(), Msg: "left (" + x.String() + ")"},
			{Loc: *n.Y.At(), Msg: "right (" + y.String() + ")"},
		}
	case !equality:
		c.invalidOp(n, x, y)
	}
}

// castUse checks an explicit cast.
func (c *useChecker) castUse(n *syntax.Cast) {
	t, from := c.types.at(n), c.types.at(n.X)
	if t.Kind == None {
		c.fail(n, "Incomplete cast, unknown type")
		return
	}
	switch {
	case from.Kind == C:
		c.fail(n, "Cannot cast from C type \""+from.String()+"\"")
		return
	case from.Kind == None:
		c.fail(n, "Cannot cast from \""+from.String()+"\" type")
		return
	}
	refuse := func(ok bool) {
		if !ok {
			c.fail(n, "Cannot cast from \""+from.String()+"\" to \""+t.String()+"\"")
		}
	}
	if t.Kind == String && from.Kind == String {
		refuse(t.Size >= from.Size)
		return
	}
	switch t.Kind {
	case Integer, Pointer, Bool:
	case Array:
		refuse(t.Elem.Kind == Bool || t.Elem.Kind == Integer)
		c.castArray(n, t, from, refuse)
	default:
		refuse(false)
	}
	if t.Kind == Integer && t.Name != "" {
		c.castEnum(n, t)
	}
	if from.Kind != Pointer && !from.castable() && from.Kind != Integer {
		refuse(t.Kind != Bool || from.Kind == String)
		refuse(t.Kind != Integer || from.Kind == Bool || from.Context || from.Kind == Array)
	}
	refuse(from.Kind != Array || t.Kind == Integer && t.Size == from.Size)
}

func (c *useChecker) castArray(n *syntax.Cast, t, from Type, refuse func(bool)) {
	if t.Len == 0 {
		if t.Elem.Size == 0 {
			c.fail(n, "Could not determine size of the array")
		} else if from.Size%t.Elem.Size != 0 {
			c.fail(n, "Cannot determine array size: the element size is incompatible with the cast "+
				"integer size")
		}
	}
	if from.Kind != Integer {
		refuse((from.Kind == Bool || from.Kind == String) && t.Size == from.Size)
		return
	}
	if t.Elem.Kind == Integer || t.Elem.Kind == Bool {
		refuse(t.Size <= 8 && t.Size > from.Size || t.Size == from.Size)
	}
}

func (c *useChecker) castEnum(n *syntax.Cast, t Type) {
	e, ok := t.BTF.(*btf.Enum)
	if !ok {
		c.fail(n, "Unknown enum: "+t.Name)
		return
	}
	i, ok := natural(n.X)
	if !ok {
		return
	}
	values := c.variants[e]
	if values == nil {
		values = make(map[uint64]bool, len(e.Values))
		for _, v := range e.Values {
			values[v.Value] = true
		}
		c.variants[e] = values
	}
	if values[i] {
		return
	}
	c.fail(n, "Enum: "+t.Name+" doesn't contain a variant value of "+strconv.FormatUint(i, 10))
}
