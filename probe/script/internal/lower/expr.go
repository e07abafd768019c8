package lower

import (
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// expr returns the value of an expression. What the expression does is added as statements before
// it, in order.
func (l *lowerer) expr(x syntax.Expr) *ir.Expr {
	if !l.count(x) {
		return ir.NewConst(0)
	}
	e := l.value(x)
	if e.Pos == (ir.Pos{}) {
		e.Pos = pos(*x.At())
	}
	return e
}

func (l *lowerer) value(x syntax.Expr) *ir.Expr {
	switch x := x.(type) {
	case *syntax.Integer:
		return l.integer(x)
	case *syntax.Boolean:
		n := int64(0)
		if x.Value {
			n = 1
		}
		return constant(ir.BoolType(), n)
	case *syntax.String:
		value, _, _ := strings.Cut(x.Value, "\x00") // which ends it, also in comparisons
		return &ir.Expr{Op: ir.OpString, Str: value, Type: l.of(x)}
	case *syntax.Builtin:
		return l.builtin(x)
	case *syntax.Variable:
		if v := l.find(x.Name); v != nil {
			return ir.NewVar(v)
		}
		return l.missing(x, "the use of this variable")
	case *syntax.Addr:
		return l.addressOf(x)
	case *syntax.MapAccess:
		return l.read(x)
	case *syntax.Binary:
		return l.binary(x)
	case *syntax.Unary:
		return l.unary(x)
	case *syntax.If:
		return l.choice(x)
	case *syntax.Block:
		return l.blockValue(x)
	case *syntax.Call:
		return l.call(x, true)
	case *syntax.Cast:
		return l.cast(x)
	case *syntax.Tuple:
		return l.tuple(x, x.Elems)
	case *syntax.Record:
		return l.record(x)
	case *syntax.Element:
		return &ir.Expr{Op: ir.OpElem, Int: int64(x.N), Args: []*ir.Expr{l.expr(x.X)}}
	case *syntax.Field:
		return l.field(x)
	case *syntax.Index:
		return l.index(x)
	case *syntax.Comptime:
		return l.expr(x.X)
	case *syntax.Identifier:
		return l.enumerator(x)
	}
	return l.missing(x, "this expression")
}

func (l *lowerer) integer(x *syntax.Integer) *ir.Expr {
	n := int64(x.Value)
	if x.Negative {
		n = -n
	}
	return constant(l.of(x), n)
}

func (l *lowerer) enumerator(x *syntax.Identifier) *ir.Expr {
	if v, ok := l.typed.Enumerator(x.Name); ok {
		return constant(l.of(x), int64(v))
	}
	return l.missing(x, "the name "+x.Name)
}

// in returns values whose statements were added one after the other. The value of one is kept in
// a variable if what a later one does could change it.
func (l *lowerer) in(xs ...syntax.Expr) []*ir.Expr {
	out := make([]*ir.Expr, len(xs))
	for i, x := range xs {
		n := len(*l.list)
		out[i] = l.expr(x)
		if len(*l.list) == n {
			continue
		}
		for j := range i {
			m := len(*l.list)
			out[j] = l.before(n, xs[j], out[j], l.of(xs[j]))
			n += len(*l.list) - m
		}
	}
	return out
}

// before keeps a value in a variable before the statements that were added after the first n.
func (l *lowerer) before(n int, at syntax.Node, x *ir.Expr, t ir.Type) *ir.Expr {
	if x.Op == ir.OpConst || x.Op == ir.OpString {
		return x
	}
	added := slices.Clone((*l.list)[n:])
	*l.list = (*l.list)[:n]
	v := l.let(at, "kept", x, t)
	*l.list = append(*l.list, added...)
	return ir.NewVar(v)
}

// kept returns a value that may be used twice.
func (l *lowerer) kept(n syntax.Node, x *ir.Expr, t ir.Type) *ir.Expr {
	switch x.Op {
	case ir.OpConst, ir.OpString, ir.OpVar:
		return x
	}
	return ir.NewVar(l.let(n, "key", x, t))
}

var binaries = map[string]ir.Op{
	"+": ir.OpAdd, "-": ir.OpSub, "*": ir.OpMul, "/": ir.OpDiv, "%": ir.OpMod, "&": ir.OpAnd,
	"|": ir.OpOr, "^": ir.OpXor, "<<": ir.OpShl, ">>": ir.OpShr, "==": ir.OpEq, "!=": ir.OpNe,
	"<": ir.OpLt, "<=": ir.OpLe, ">": ir.OpGt, ">=": ir.OpGe, "&&": ir.OpLAnd, "||": ir.OpLOr,
}

func (l *lowerer) binary(x *syntax.Binary) *ir.Expr {
	op := binaries[x.Op]
	switch op {
	case ir.OpLAnd, ir.OpLOr:
		return l.logic(x, op)
	case ir.OpInvalid:
		return l.missing(x, "the operator "+x.Op)
	}
	if t := l.typ(x); t.Kind == types.Pointer && (op == ir.OpAdd || op == ir.OpSub) {
		return l.offset(x, op)
	}
	if !l.onlyText(x, x.X, x.Y) {
		return zero(l.of(x))
	}
	args := l.in(x.X, x.Y)
	if a, b := l.typ(x.X), l.typ(x.Y); a.Kind == types.Buffer && b.Kind == types.Buffer {
		wide := l.of(x.X)
		if b.Size > a.Size {
			wide = l.of(x.Y)
		}
		args[0], args[1] = l.widened(x, args[0], l.of(x.X), wide), l.widened(x, args[1], l.of(x.Y), wide)
	}
	if op == ir.OpDiv || op == ir.OpMod {
		args = l.divisor(x, args)
	}
	e := ir.NewExpr(op, args...)
	if op < ir.OpEq || op > ir.OpGe {
		e.Type = l.of(x)
	}
	return e
}

// divisor keeps both operands of a division, and warns if it is by zero: its result is 1 then, as
// it is of 1 divided by 1, and, for the rest, of 1 divided by 2.
func (l *lowerer) divisor(x *syntax.Binary, args []*ir.Expr) []*ir.Expr {
	if n, ok := l.literal(x.Y); ok && n != 0 {
		return args
	}
	t := l.of(x)
	var vars [2]*ir.Var
	for i, name := range []string{"dividend", "divisor"} {
		cast := castTo(t, args[i])
		vars[i] = l.let(x, name, cast, t)
	}
	zero := l.block(func() {
		l.emit(x, Site{Kind: Warning, Format: "Divide or modulo by 0 detected. This can lead to unexpected " +
			"results. 1 is being used as the result."})
		one := constant(t, 1)
		by := constant(t, 1)
		if x.Op == "%" {
			by.Int = 2
		}
		l.set(x, vars[0], one)
		l.set(x, vars[1], by)
	})
	l.add(x, &ir.Stmt{
		Op: ir.StmtIf, X: ir.NewExpr(ir.OpEq, ir.NewVar(vars[1]), constant(t, 0)), Body: zero,
	})
	return []*ir.Expr{ir.NewVar(vars[0]), ir.NewVar(vars[1])}
}

// literal returns the number of a literal, also of one that was cast.
func (l *lowerer) literal(x syntax.Expr) (n int64, ok bool) {
	switch x := x.(type) {
	case *syntax.Integer:
		if x.Negative {
			return -int64(x.Value), true
		}
		return int64(x.Value), true
	case *syntax.Cast:
		t := l.typ(x)
		if n, ok = l.literal(x.X); !ok || t.Kind != types.Integer || t.Size == 0 || t.Size > 8 {
			return 0, false
		}
		unused := 64 - 8*t.Size
		if t.Signed {
			return n << unused >> unused, true
		}
		return int64(uint64(n) << unused >> unused), true
	}
	return 0, false
}

// logic returns x && y or x || y. If y does something, that happens only if the result is not
// decided by x.
func (l *lowerer) logic(x *syntax.Binary, op ir.Op) *ir.Expr {
	a := l.truth(x.X)
	var b *ir.Expr
	body := l.block(func() { b = l.truth(x.Y) })
	if len(body) == 0 {
		return ir.NewExpr(op, a, b)
	}
	v := l.let(x, "logic", a, ir.BoolType())
	body = append(body, &ir.Stmt{Op: ir.StmtLet, Var: v, X: b, Pos: pos(x.Loc)})
	s := &ir.Stmt{Op: ir.StmtIf, X: ir.NewVar(v), Body: body}
	if op == ir.OpLOr {
		s.X = ir.NewExpr(ir.OpLNot, s.X)
	}
	l.add(x, s)
	return ir.NewVar(v)
}

// truth returns whether a value is not zero; a text, whether it is not empty.
func (l *lowerer) truth(x syntax.Expr) *ir.Expr {
	e := l.expr(x)
	if l.typ(x).Kind == types.String {
		return ir.NewExpr(ir.OpNe, ir.NewExpr(ir.OpLen, e), ir.NewConst(0))
	}
	return e
}

func (l *lowerer) unary(x *syntax.Unary) *ir.Expr {
	switch x.Op {
	case "++", "--":
		return l.step(x, true)
	case "!":
		return ir.NewExpr(ir.OpLNot, l.truth(x.X))
	case "-":
		return &ir.Expr{Op: ir.OpNeg, Type: l.of(x), Args: []*ir.Expr{l.expr(x.X)}}
	case "*":
		return l.deref(x)
	case "~":
		return &ir.Expr{Op: ir.OpNot, Type: l.of(x), Args: []*ir.Expr{l.expr(x.X)}}
	}
	return l.missing(x, "the operator "+x.Op)
}

// step adds 1 to a variable or an element of a map, or takes 1. The value is that before or after.
// An element of a map is changed atomically if nobody takes the value.
func (l *lowerer) step(x *syntax.Unary, used bool) *ir.Expr {
	by := int64(1)
	if x.Op == "--" {
		by = -1
	}
	t, number := l.of(x.X), l.of(x.X)
	switch of := l.typ(x.X); {
	case of.Kind == types.Pointer:
		by *= int64(max(of.Elem.Size, 1))
		number = ir.Uint64Type()
	case t.Kind != ir.KindInt:
		return l.missing(x, x.Op+" of a "+of.String())
	}
	one := constant(number, by)
	after := func(x *ir.Expr) *ir.Expr {
		sum := &ir.Expr{Op: ir.OpAdd, Type: number, Args: []*ir.Expr{x, one}}
		return castTo(t, sum)
	}
	switch target := x.X.(type) {
	case *syntax.Variable:
		v := l.find(target.Name)
		if v == nil {
			return l.missing(x, "the use of this variable")
		}
		result := ir.NewVar(v)
		if used && x.Postfix {
			result = ir.NewVar(l.let(x, "before", ir.NewVar(v), t))
		}
		l.set(x, v, after(ir.NewVar(v)))
		return result
	case *syntax.MapAccess:
		m := l.maps[target.Map.Name]
		key := l.key(target)
		if !used && t.Kind == ir.KindInt && t.Size >= 4 {
			l.update(x, &ir.Stmt{Op: ir.StmtAdd, Map: m.IR, Key: key, X: one})
			return ir.NewConst(0)
		}
		key = l.kept(x, key, m.IR.Key)
		was := l.let(x, "before", &ir.Expr{Op: ir.OpMapGet, Map: m.IR, Args: []*ir.Expr{key}}, t)
		is := l.let(x, "after", after(ir.NewVar(was)), t)
		l.update(x, &ir.Stmt{Op: ir.StmtSet, Map: m.IR, Key: key, X: ir.NewVar(is)})
		if x.Postfix {
			return ir.NewVar(was)
		}
		return ir.NewVar(is)
	}
	return l.missing(x, x.Op+" of this")
}

// choice returns the value of an if. Its sides are statements if they do something.
func (l *lowerer) choice(x *syntax.If) *ir.Expr {
	t := l.of(x)
	var cond *ir.Expr
	then := x.Then
	if then == nil { // x ?: y
		then = x.Cond
	}
	if !l.onlyText(x, then, x.Else) {
		return zero(t)
	}
	if x.Then == nil {
		v := ir.NewVar(l.let(x, "chosen", l.expr(x.Cond), l.of(x.Cond)))
		cond = v
		return l.choose(x, t, cond, func() *ir.Expr { return v }, func() *ir.Expr { return l.expr(x.Else) })
	}
	cond = l.truth(x.Cond)
	side := func(e syntax.Expr) func() *ir.Expr {
		return func() *ir.Expr { return l.widened(e, l.expr(e), l.of(e), t) }
	}
	return l.choose(x, t, cond, side(then), side(x.Else))
}

// widened returns a buffer as one of more bytes; other values are as they are.
func (l *lowerer) widened(n syntax.Node, x *ir.Expr, from, to ir.Type) *ir.Expr {
	if from.Kind != ir.KindTuple || to.Kind != ir.KindTuple || from.Equal(to) || len(from.Fields) != 2 || len(to.Fields) != 2 ||
		from.Fields[1].Type.Kind != ir.KindBytes || to.Fields[1].Type.Kind != ir.KindBytes {
		return x
	}
	x = l.kept(n, x, from)
	part := func(i int64) *ir.Expr { return &ir.Expr{Op: ir.OpElem, Int: i, Args: []*ir.Expr{x}} }
	return &ir.Expr{Op: ir.OpTuple, Type: to, Args: []*ir.Expr{part(0), castTo(to.Fields[1].Type, part(1))}}
}

func (l *lowerer) choose(n syntax.Node, t ir.Type, cond *ir.Expr, a, b func() *ir.Expr) *ir.Expr {
	var x, y *ir.Expr
	then := l.block(func() { x = a() })
	other := l.block(func() { y = b() })
	if len(then) == 0 && len(other) == 0 && t.Scalar() {
		return &ir.Expr{Op: ir.OpCond, Type: t, Args: []*ir.Expr{cond, x, y}}
	}
	v := l.let(n, "chosen", zero(t), t)
	at := pos(*n.At())
	then = append(then, &ir.Stmt{Op: ir.StmtLet, Var: v, X: x, Pos: at})
	other = append(other, &ir.Stmt{Op: ir.StmtLet, Var: v, X: y, Pos: at})
	l.add(n, &ir.Stmt{Op: ir.StmtIf, X: cond, Body: then, Else: other})
	return ir.NewVar(v)
}

// blockValue returns the value of a block: of its last expression. Its variables end with it.
func (l *lowerer) blockValue(b *syntax.Block) *ir.Expr {
	var x *ir.Expr
	list := l.block(func() {
		l.stmts(b.Stmts)
		x = l.expr(b.Value)
	})
	*l.list = append(*l.list, list...)
	return x
}

func (l *lowerer) cast(x *syntax.Cast) *ir.Expr {
	if t := l.typ(x); hasNames(t) {
		return l.expr(x.X)
	} else if t.Kind == types.Pointer && !l.of(x.X).Scalar() { // an array, of which it is the address
		if at := l.address(x.X); at != nil {
			return castTo(l.of(x), at)
		}
	}
	e := l.expr(x.X)
	t := l.of(x)
	from := l.of(x.X)
	switch {
	case from.Scalar() && t.Scalar(), from.Kind == ir.KindString && t.Kind == ir.KindString,
		from.Size == t.Size && (from.Scalar() || t.Scalar()):
		return castTo(t, e)
	case from.Equal(t):
		return e
	case t.Kind == ir.KindBytes && (from.Scalar() || from.Kind == ir.KindString):
		return l.asBytes(e, from, t)
	}
	return l.missing(x, "a cast of "+l.typ(x.X).String()+" to "+l.typ(x).String())
}

// asBytes returns a number or text as an array of as many bytes or more, in memory's order.
func (l *lowerer) asBytes(e *ir.Expr, from, to ir.Type) *ir.Expr {
	if from.Scalar() {
		e = castTo(ir.BytesType(from.Size), castTo(ir.IntType(from.Size, false), e))
	}
	return castTo(to, e)
}

// record returns a record, whose elements are evaluated in the script's order and have their places
// by name.
func (l *lowerer) record(x *syntax.Record) *ir.Expr {
	elems := make([]syntax.Expr, len(x.Elems))
	for i, e := range x.Elems {
		elems[i] = e.Value
	}
	values := l.in(elems...)
	t := l.typ(x)
	out := &ir.Expr{Op: ir.OpTuple, Type: l.of(x), Args: make([]*ir.Expr, len(values))}
	for i, f := range t.Fields {
		j := slices.IndexFunc(x.Elems, func(e *syntax.NamedArg) bool { return e.Name == f.Name })
		if j < 0 || i >= len(out.Args) {
			return l.missing(x, "this record")
		}
		out.Args[i] = values[j]
	}
	return out
}

func (l *lowerer) tuple(n syntax.Expr, elems []syntax.Expr) *ir.Expr {
	return &ir.Expr{Op: ir.OpTuple, Type: l.of(n), Args: l.in(elems...)}
}

// read returns an element of a map: zero if there is none.
func (l *lowerer) read(x *syntax.MapAccess) *ir.Expr {
	m := l.maps[x.Map.Name]
	if m == nil {
		return l.option(x)
	}
	if m.IR.Agg != ir.AggNone {
		return l.aggregated(x, m, l.key(x))
	}
	return l.failing(x, MapLookup, &ir.Expr{Op: ir.OpMapGet, Map: m.IR, Args: []*ir.Expr{l.key(x)}})
}

// key returns the key of an element.
func (l *lowerer) key(x *syntax.MapAccess) *ir.Expr { return l.keyOf(l.maps[x.Map.Name], x.Key) }

// keyOf returns a key of a map, which is cut if it is a text that is too long for one.
func (l *lowerer) keyOf(m *Map, x syntax.Expr) *ir.Expr {
	e := l.expr(x)
	t := m.IR.Key
	if m.Wrapped {
		e = castTo(t.Fields[0].Type, e)
		return &ir.Expr{Op: ir.OpTuple, Type: t, Args: []*ir.Expr{e}}
	}
	return e
}

// option returns the value of one of getopt's options: it is known before anything runs.
func (l *lowerer) option(x *syntax.MapAccess) *ir.Expr {
	i := slices.IndexFunc(l.typed.Options(), func(o types.Option) bool { return o.Name == x.Map.Name })
	if i < 0 {
		return l.missing(x, "this map")
	}
	o := l.typed.Options()[i]
	text, given := l.o.Values[o.Name]
	if !given {
		text = o.Default
	}
	t := l.typeOf(x, o.Type)
	switch o.Type.Kind {
	case types.String:
		if len(text) >= t.Size {
			l.fail(x, "the option "+o.Name+" is longer than max_strlen")
			return zero(t)
		}
		return &ir.Expr{Op: ir.OpString, Str: text, Type: t}
	case types.Bool:
		switch strings.ToLower(text) {
		case "1", "true", "on", "yes", "":
			return constant(t, 1)
		case "0", "false", "off", "no":
			return zero(t)
		}
		l.invalid(o.Name, "boolean", text)
		return zero(t)
	}
	n, err := number(text, t.Signed)
	if err != nil {
		l.invalid(o.Name, "integer", text)
	}
	return constant(t, n)
}

// invalid reports the value of an option that is not of its type.
func (l *lowerer) invalid(option, want, text string) {
	l.errs = append(l.errs, &syntax.Error{
		Msg: "program command line option --" + option + " invalid " + want + " (value: " + text + ")",
	})
}

// number returns the bits of an integer.
func number(text string, signed bool) (int64, error) {
	if signed {
		return strconv.ParseInt(text, 0, 64)
	}
	n, err := strconv.ParseUint(text, 0, 64)
	return int64(n), err
}

// field returns a field of args, an element of a record, or a member.
func (l *lowerer) field(x *syntax.Field) *ir.Expr {
	switch t := l.typ(x.X); {
	case isArgs(x.X):
		return l.loaded(x, l.arg(x.Name))
	case l.point.Provider == "iter" && isContext(x.X):
		return l.object(x)
	case t.Kind == types.Record:
		e := &ir.Expr{Op: ir.OpElem, Str: x.Name, Args: []*ir.Expr{l.expr(x.X)}}
		if l.of(x).Kind == ir.KindPtr {
			e = castTo(l.of(x), e) // whose memory an argument points to
		}
		return e
	}
	return l.member(x)
}

// object returns an object that an iterator shows. The program ends where there is none: after the
// last one.
func (l *lowerer) object(x *syntax.Field) *ir.Expr {
	e := l.loaded(x, &ir.Expr{Op: ir.OpField, Str: x.Name})
	if l.typ(x).Kind != types.Pointer {
		return e
	}
	v := ir.NewVar(l.let(x, x.Name, e, l.of(x)))
	l.add(x, &ir.Stmt{
		Op: ir.StmtIf, X: ir.NewExpr(ir.OpEq, v, ir.NewConst(0)), Body: []*ir.Stmt{{Op: ir.StmtReturn}},
	})
	return v
}

// isContext reports whether an expression is what the context points to.
func isContext(x syntax.Expr) bool {
	if u, ok := x.(*syntax.Unary); ok && u.Op == "*" {
		x = u.X
	}
	b, ok := x.(*syntax.Builtin)
	return ok && b.Name == "ctx"
}
