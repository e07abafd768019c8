package lower

import (
	"fmt"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
)

// while adds a loop that ends when the condition is false, or after the most turns that the kernel
// allows, with a warning.
func (l *lowerer) while(s *syntax.While) {
	most := constant(ir.IntType(4, false), int64(l.o.Turns))
	i := &ir.Var{Name: "i"}
	last := l.let(s, "last", constant(ir.Int64Type(), 0), ir.Int64Type())
	l.loops++
	defer func() { l.loops-- }()
	body := l.block(func() {
		l.set(s, last, castTo(ir.Int64Type(), ir.NewVar(i)))
		end := &ir.Stmt{Op: ir.StmtIf, X: ir.NewExpr(ir.OpLNot, l.truth(s.Cond)), Body: []*ir.Stmt{{Op: ir.StmtBreak}}}
		l.add(s, end)
		l.blockOf(s.Body)
	})
	l.add(s, &ir.Stmt{Op: ir.StmtLoop, X: most, Var: i, Max: l.o.Turns, Body: body})
	l.warnOfTurns(s, ir.NewVar(last), l.o.Turns-2)
}

// warnOfTurns warns that a loop ended early if x is larger than a limit.
func (l *lowerer) warnOfTurns(s syntax.Stmt, x *ir.Expr, limit int) {
	warning := l.block(func() {
		format := fmt.Sprintf("This loop ended after %d turns, which is the most that programs may have on this kernel.", l.o.Turns)
		l.emit(s, Site{Kind: Warning, Format: format})
	})
	most := constant(ir.Int64Type(), int64(limit))
	l.add(s, &ir.Stmt{Op: ir.StmtIf, X: ir.NewExpr(ir.OpGt, x, most), Body: warning})
}

func (l *lowerer) forLoop(s *syntax.For) {
	switch over := s.Over.(type) {
	case *syntax.Range:
		l.forRange(s, over)
	case *syntax.Map:
		l.forMap(s, over)
	default:
		l.missing(s, "for over this")
	}
}

// forRange adds a loop over the integers from one value up to another.
func (l *lowerer) forRange(s *syntax.For, r *syntax.Range) {
	t := l.of(s.Var)
	args := l.in(r.Begin, r.End)
	from := ir.NewVar(l.let(s, "from", args[0], t))
	to := ir.NewVar(l.let(s, "to", args[1], t))
	n := &ir.Expr{Op: ir.OpSub, Type: ir.Int64Type(), Args: []*ir.Expr{to, from}}
	count := ir.NewVar(l.let(s, "count", n, ir.Int64Type()))
	bounded := func(op ir.Op, limit int64, x *ir.Expr) *ir.Expr {
		most := constant(ir.Int64Type(), limit)
		return &ir.Expr{Op: ir.OpCond, Type: ir.Int64Type(), Args: []*ir.Expr{ir.NewExpr(op, x, most), x, most}}
	}
	turns := ir.NewVar(l.let(s, "turns", bounded(ir.OpGt, 0, count), ir.Int64Type()))
	turns = ir.NewVar(l.let(s, "turns", bounded(ir.OpLt, int64(l.o.Turns), turns), ir.Int64Type()))
	i := &ir.Var{Name: "i"}
	l.loops++
	defer func() { l.loops-- }()
	body := l.block(func() {
		at := &ir.Expr{Op: ir.OpAdd, Type: t, Args: []*ir.Expr{from, ir.NewVar(i)}}
		l.set(s.Var, l.variable(s.Var, true), at)
		l.blockOf(s.Body)
	})
	l.add(s, &ir.Stmt{Op: ir.StmtLoop, X: turns, Var: i, Max: l.o.Turns, Body: body})
	first, known := l.literal(r.Begin)
	if end, ok := l.literal(r.End); !ok || !known || end > first && uint64(end-first) > uint64(l.o.Turns) {
		l.warnOfTurns(s, count, l.o.Turns)
	}
}

// forMap adds a loop over a map's entries, as tuples of key and value.
func (l *lowerer) forMap(s *syntax.For, of *syntax.Map) {
	m := l.maps[of.Name]
	if m == nil || m.IR.Kind == ir.MapPerCPUHash || m.IR.Kind == ir.MapPerCPULRU || severalEntries(m.IR.Agg) {
		l.missing(s, "for over a map with several values for a key")
		return
	}
	key, value := &ir.Var{Name: "key"}, (*ir.Var)(nil)
	if m.IR.Agg == ir.AggNone {
		value = &ir.Var{Name: "value"}
	}
	l.loops++
	defer func() { l.loops-- }()
	body := l.block(func() {
		k := ir.NewVar(key)
		var v *ir.Expr
		if value != nil {
			v = ir.NewVar(value)
		} else {
			v = l.aggregated(s, m, k)
		}
		if m.Wrapped {
			k = &ir.Expr{Op: ir.OpElem, Args: []*ir.Expr{k}}
		}
		pair := &ir.Expr{Op: ir.OpTuple, Type: l.of(s.Var), Args: []*ir.Expr{k, v}}
		l.set(s.Var, l.variable(s.Var, true), pair)
		l.blockOf(s.Body)
	})
	l.add(s, &ir.Stmt{Op: ir.StmtForEach, Map: m.IR, Var: key, Var2: value, Body: body})
}
