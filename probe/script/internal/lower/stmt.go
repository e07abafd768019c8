package lower

import (
	"slices"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// blockOf adds the statements of a block, and its value as one.
func (l *lowerer) blockOf(b *syntax.Block) {
	list := b.Stmts
	if _, none := b.Value.(*syntax.None); !none {
		list = append(slices.Clone(list), &syntax.ExprStmt{Loc: *b.Value.At(), X: b.Value})
	}
	l.stmts(list)
}

// stmts adds statements. print(@x); clear(@x) is one: what is added between the two is not lost.
func (l *lowerer) stmts(list []syntax.Stmt) {
	for i := 0; i < len(list); i++ {
		n := len(l.out.Sites)
		l.stmt(list[i])
		if i+1 == len(list) || len(l.out.Sites) != n+1 {
			continue
		}
		at := &l.out.Sites[n]
		if m := cleared(list[i+1]); at.Kind == PrintMap && m != nil && m.Name == at.Map.Name {
			at.Clear = true
			i++
		}
	}
}

// cleared returns the map that a statement clears, or nil.
func cleared(s syntax.Stmt) *syntax.Map {
	x, ok := s.(*syntax.ExprStmt)
	if !ok {
		return nil
	}
	c, ok := x.X.(*syntax.Call)
	if !ok || c.Name != "clear" || len(c.Args) != 1 {
		return nil
	}
	m, _ := c.Args[0].(*syntax.Map)
	return m
}

func (l *lowerer) stmt(s syntax.Stmt) {
	if !l.count(s) {
		return
	}
	switch s := s.(type) {
	case *syntax.ExprStmt:
		l.drop(s.X)
	case *syntax.Discard:
		l.drop(s.X)
	case *syntax.Assign:
		l.assign(s)
	case *syntax.VarDecl:
		l.declare(s)
	case *syntax.Jump:
		l.jump(s)
	case *syntax.Unroll:
		l.unroll(s)
	case *syntax.While:
		l.while(s)
	case *syntax.For:
		l.forLoop(s)
	case *syntax.Import:
	default:
		l.missing(s, "this statement")
	}
}

// drop adds what an expression does, and drops its value.
func (l *lowerer) drop(x syntax.Expr) {
	switch x := x.(type) {
	case nil, *syntax.None:
	case *syntax.Block:
		*l.list = append(*l.list, l.block(func() { l.blockOf(x) })...)
	case *syntax.If:
		l.ifStmt(x)
	case *syntax.Call:
		l.call(x, false)
	case *syntax.Unary:
		if x.Op == "++" || x.Op == "--" {
			l.step(x, false)
			return
		}
		l.eval(x, l.expr(x))
	default:
		l.eval(x, l.expr(x))
	}
}

// eval adds the evaluation of an expression whose value nobody takes: of what counts.
func (l *lowerer) eval(n syntax.Node, x *ir.Expr) {
	if x != nil && !l.pure(x) {
		l.add(n, &ir.Stmt{Op: ir.StmtEval, X: x})
	}
}

// pure reports whether an expression's evaluation can be left out: it counts nothing.
func (l *lowerer) pure(x *ir.Expr) bool {
	switch x.Op {
	case ir.OpConst, ir.OpString, ir.OpBytes, ir.OpVar, ir.OpBuiltin:
		return true
	}
	return false
}

// ifStmt adds an if whose value nobody takes.
func (l *lowerer) ifStmt(x *syntax.If) {
	cond := l.truth(x.Cond)
	s := &ir.Stmt{Op: ir.StmtIf, X: cond}
	l.add(x, s)
	s.Body = l.block(func() { l.drop(x.Then) })
	s.Else = l.block(func() { l.drop(x.Else) })
}

func (l *lowerer) assign(s *syntax.Assign) {
	switch t := s.Target.(type) {
	case *syntax.VarDecl:
		l.assignVar(t.Var, s.Value, true)
	case *syntax.Variable:
		l.assignVar(t, s.Value, false)
	case *syntax.MapAccess:
		m := l.maps[t.Map.Name]
		key := l.kept(t, l.key(t), m.IR.Key)
		if d, ok := l.addend(t, s.Value); ok && m.IR.Value.Kind == ir.KindInt && m.IR.Value.Size >= 4 {
			l.update(s, &ir.Stmt{Op: ir.StmtAdd, Map: m.IR, Key: key, X: l.expr(d)})
			return
		}
		x := l.fitted(s.Value, m.Value)
		l.update(s, &ir.Stmt{Op: ir.StmtSet, Map: m.IR, Key: key, X: x})
	default:
		l.missing(s, "an assignment to this")
	}
}

// assignVar gives a variable of the script a value. If that is the name of a number, the variable has
// the number.
func (l *lowerer) assignVar(n *syntax.Variable, value syntax.Expr, declared bool) {
	names := l.typ(value)
	if !hasNames(names) && (declared || !hasNames(l.typ(n))) {
		x := l.fitted(value, l.typ(n))
		l.set(n, l.variable(n, declared), x)
		return
	}
	v := l.find(n.Name)
	switch x := l.expr(value); {
	case declared || v == nil:
		v = &ir.Var{Name: n.Name, Type: l.typeOf(value, names)}
		l.scope.vars[n.Name] = v
		l.varNames[v] = names
		l.set(n, v, x)
	case hasNames(names) && sameNames(l.varNames[v], names):
		l.set(n, v, x)
	default:
		l.missing(value, "the name of a number in a variable that has other text, too,")
	}
}

// fitted returns a value to assign. The elements of a record get the places that they have in the
// assigned type, by their names.
func (l *lowerer) fitted(value syntax.Expr, want types.Type) *ir.Expr {
	x, t := l.expr(value), l.typ(value)
	if t.Kind == types.Buffer {
		return l.widened(value, x, l.of(value), l.typeOf(value, want))
	}
	if t.Kind != types.Record || want.Kind != types.Record || len(t.Fields) != len(want.Fields) {
		return x
	}
	same := slices.EqualFunc(t.Fields, want.Fields, func(a, b types.Field) bool { return a.Name == b.Name })
	if same {
		return x
	}
	x = l.kept(value, x, l.of(value))
	out := &ir.Expr{Op: ir.OpTuple, Type: l.typeOf(value, want)}
	for _, f := range want.Fields {
		out.Args = append(out.Args, &ir.Expr{Op: ir.OpElem, Str: f.Name, Args: []*ir.Expr{x}})
	}
	return out
}

// addend returns y of @x[k] = @x[k] + y, which the script has as @x[k] += y: that is one atomic
// addition.
func (l *lowerer) addend(target *syntax.MapAccess, value syntax.Expr) (syntax.Expr, bool) {
	b, ok := value.(*syntax.Binary)
	if !ok || b.Op != "+" {
		return nil, false
	}
	x, ok := b.X.(*syntax.MapAccess)
	if !ok || x.Map.Name != target.Map.Name || !syntax.Equal(x.Key, target.Key) {
		return nil, false
	}
	return b.Y, true
}

// set gives a variable a value.
func (l *lowerer) set(n syntax.Node, v *ir.Var, x *ir.Expr) {
	l.add(n, &ir.Stmt{Op: ir.StmtLet, Var: v, X: x})
}

// variable returns a variable to set. If none of its name is in scope, or if it is declared here,
// it is a new one of the innermost block.
func (l *lowerer) variable(n *syntax.Variable, declared bool) *ir.Var {
	if !declared {
		if v := l.find(n.Name); v != nil {
			return v
		}
	}
	v := &ir.Var{Name: n.Name, Type: l.of(n)}
	l.scope.vars[n.Name] = v
	return v
}

// declare declares a variable, which is zero.
func (l *lowerer) declare(d *syntax.VarDecl) {
	v := l.variable(d.Var, true)
	if l.typ(d.Var).Kind == types.None {
		return // never used
	}
	l.set(d, v, zero(v.Type))
}

// zero returns the zero value of a type.
func zero(t ir.Type) *ir.Expr {
	switch {
	case t.Scalar():
		return constant(t, 0)
	case t.Kind == ir.KindString:
		return &ir.Expr{Op: ir.OpString, Type: t}
	case t.Kind == ir.KindTuple:
		x := &ir.Expr{Op: ir.OpTuple, Type: t}
		for _, f := range t.Fields {
			x.Args = append(x.Args, zero(f.Type))
		}
		return x
	}
	return &ir.Expr{Op: ir.OpBytes, Type: t}
}

func (l *lowerer) jump(s *syntax.Jump) {
	switch s.Keyword {
	case "return":
		l.returned(s)
		l.add(s, &ir.Stmt{Op: ir.StmtReturn})
	case "break":
		l.add(s, &ir.Stmt{Op: ir.StmtBreak})
	default:
		l.add(s, &ir.Stmt{Op: ir.StmtContinue})
	}
}

// returned adds what the value of a return does: that of a test or a bench is its result.
func (l *lowerer) returned(s *syntax.Jump) {
	switch t := l.typ(s.Value); {
	case s.Value == nil:
	case (l.point.Provider == "test" || l.point.Provider == "bench") && t.Kind == types.Integer:
		l.emit(s, Site{Kind: Returned, Args: []types.Type{t}}, l.expr(s.Value))
	default:
		l.drop(s.Value)
	}
}

// mostUnrolled is the largest number of repetitions of a block.
const mostUnrolled = 100

func (l *lowerer) unroll(s *syntax.Unroll) {
	n, ok := s.Count.(*syntax.Integer)
	if !ok || n.Negative || n.Value > mostUnrolled {
		l.missing(s, "unroll of more than 100 times")
		return
	}
	for range n.Value {
		*l.list = append(*l.list, l.block(func() { l.blockOf(s.Body) })...)
	}
}
