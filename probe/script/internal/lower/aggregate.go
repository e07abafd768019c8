package lower

import (
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
)

// aggregations are the functions whose result is a map's value.
var aggregations = map[string]ir.Agg{
	"count": ir.AggCount, "sum": ir.AggSum, "min": ir.AggMin, "max": ir.AggMax, "avg": ir.AggAvg,
	"stats": ir.AggStats, "hist": ir.AggHist, "lhist": ir.AggLinear, "tseries": ir.AggSeries,
}

// use is how a script uses a map besides adding to it and printing it.
type use struct {
	cleared bool // by clear or zero
	read    bool // by programs: its values, its keys, or their number
	deleted bool // single elements
}

// uses finds how maps are used.
func (l *lowerer) uses() map[string]*use {
	out := map[string]*use{}
	of := func(x syntax.Node) *use {
		m, ok := x.(*syntax.Map)
		if !ok {
			return &use{}
		}
		if out[m.Name] == nil {
			out[m.Name] = &use{}
		}
		return out[m.Name]
	}
	if l.o.SeriesTime != "" {
		of(&syntax.Map{Name: l.o.SeriesTime}).read = true
	}
	printed := map[syntax.Node]bool{} // elements that are printed by who reads the ring
	for n := range syntax.All(l.typed.File) {
		switch n := n.(type) {
		case *syntax.Call:
			if len(n.Args) == 0 {
				continue
			}
			switch builtinName(n.Name) {
			case "clear", "zero":
				of(n.Args[0]).cleared = true
			case "delete":
				of(n.Args[0]).deleted = true
			case "has_key", "len", "find":
				of(n.Args[0]).read = true
			case "print":
				printed[n.Args[0]] = true
			}
		case *syntax.MapAccess:
			if !printed[n] {
				of(n.Map).read = true
			}
		case *syntax.For:
			of(n.Over).read = true
		}
	}
	return out
}

// aggregating sets what a map aggregates, by one of the calls that do.
func (l *lowerer) aggregating(m *Map, c *syntax.Call) {
	m.IR.Agg, m.IR.Signed = aggregations[c.Name], m.Value.Signed
	number := func(i int) int64 {
		if i >= len(c.Args) {
			return 0
		}
		n, ok := c.Args[i].(*syntax.Integer)
		if !ok {
			l.fail(c.Args[i], c.Name+"() takes a literal here")
			return 0
		}
		if n.Negative {
			return -int64(n.Value)
		}
		return int64(n.Value)
	}
	switch m.IR.Agg {
	case ir.AggHist:
		m.IR.Bits = int(number(3))
	case ir.AggLinear:
		m.IR.Min, m.IR.Max, m.IR.Step = number(3), number(4), number(5)
		if m.IR.Step > 0 { // the last interval has no end
			m.IR.Max -= (m.IR.Max - m.IR.Min) % m.IR.Step
		}
	case ir.AggSeries:
		m.IR.Interval, m.IR.Slots, m.IR.Inner = number(3), int(number(4)), ir.AggLast
		m.IR.Signed = l.typ(c.Args[2]).Signed
		if len(c.Args) > 5 {
			if s, ok := c.Args[5].(*syntax.String); ok {
				m.IR.Inner = aggregations[s.Value]
			}
		}
	}
	if m.IR.Kind == ir.MapLRU || m.IR.Kind == ir.MapPerCPULRU {
		m.IR.Kind = ir.MapLRU
	} else {
		m.IR.Kind = ir.MapHash
	}
}

// aggregate adds a value to an aggregation.
func (l *lowerer) aggregate(c *syntax.Call) {
	m := l.mapOf(c)
	if m == nil {
		return
	}
	s := &ir.Stmt{Op: ir.StmtAgg, Map: m.IR}
	if !m.IR.Keyless() {
		s.Key = l.keyOf(m, c.Args[1])
	}
	if m.IR.Agg != ir.AggCount && len(c.Args) > 2 {
		n := len(*l.list)
		s.X = l.expr(c.Args[2])
		if s.Key != nil && len(*l.list) > n {
			s.Key = l.before(n, c, s.Key, m.IR.Key)
		}
	}
	if m.IR.Agg == ir.AggSeries && l.o.SeriesTime != "" {
		clock := l.maps[l.o.SeriesTime].IR
		s.Time = &ir.Expr{Op: ir.OpMapGet, Map: clock, Args: []*ir.Expr{constant(clock.Key, 0)}}
	}
	l.update(c, s)
}

// mostCPUs is the most CPUs of a kernel: NR_CPUS of x86 (arch/x86/Kconfig).
const mostCPUs = 8192

// aggregated returns the number of an aggregation's element, of what all CPUs have of it: zero if
// there is none.
func (l *lowerer) aggregated(n syntax.Node, m *Map, key *ir.Expr) *ir.Expr {
	if severalEntries(m.IR.Agg) {
		return l.missing(n, "the value of an aggregation, "+m.Value.String()+",")
	}
	t := ir.IntType(8, m.IR.Signed)
	number := func(name string, t ir.Type) *ir.Var { return l.let(n, name, constant(t, 0), t) }
	cpu := &ir.Var{Name: "cpu"}
	args := []*ir.Expr{ir.NewVar(cpu)}
	if key != nil {
		key = l.kept(n, key, m.IR.Key)
		args = []*ir.Expr{key, ir.NewVar(cpu)}
	}
	field := func(at int64) *ir.Expr { return &ir.Expr{Op: ir.OpMapCPU, Map: m.IR, Int: at, Args: args} }
	add := func(v *ir.Var, at int64) {
		l.set(n, v, &ir.Expr{Op: ir.OpAdd, Type: v.Type, Args: []*ir.Expr{ir.NewVar(v), castTo(v.Type, field(at))}})
	}
	each := func(f func()) {
		l.add(n, &ir.Stmt{
			Op: ir.StmtLoop, X: ir.NewBuiltin("ncpus"), Var: cpu, Max: mostCPUs, Body: l.block(f),
		})
	}
	switch m.IR.Agg {
	case ir.AggCount, ir.AggSum:
		total := number("total", t)
		each(func() { add(total, 0) })
		return ir.NewVar(total)
	case ir.AggAvg, ir.AggStats:
		count, total := number("count", t), number("total", t)
		each(func() {
			add(count, ir.AggDone)
			add(total, ir.AggFirst)
		})
		return &ir.Expr{Op: ir.OpDiv, Type: t, Args: []*ir.Expr{ir.NewVar(total), ir.NewVar(count)}}
	}
	best, count := number("best", ir.Uint64Type()), number("count", ir.Uint64Type())
	each(func() {
		add(count, ir.AggDone)
		cpus := ir.NewVar(l.let(n, "here", field(ir.AggFirst), ir.Uint64Type()))
		l.set(n, best, &ir.Expr{Op: ir.OpCond, Type: ir.Uint64Type(), Args: []*ir.Expr{
			ir.NewExpr(ir.OpGt, cpus, ir.NewVar(best)), cpus, ir.NewVar(best),
		}})
	})
	// As package ir keeps extremes: growing, as unsigned numbers.
	number64 := func(op ir.Op, args ...*ir.Expr) *ir.Expr {
		return &ir.Expr{Op: op, Type: ir.Uint64Type(), Args: args}
	}
	value := ir.NewVar(best)
	if m.IR.Signed {
		value = number64(ir.OpXor, value, constant(ir.Uint64Type(), -1<<63))
	}
	if m.IR.Agg == ir.AggMin {
		value = number64(ir.OpNot, value)
	}
	none := ir.NewExpr(ir.OpEq, ir.NewVar(count), constant(ir.Uint64Type(), 0))
	return &ir.Expr{Op: ir.OpCond, Type: t, Args: []*ir.Expr{none, constant(t, 0), castTo(t, value)}}
}

// severalEntries reports whether an aggregation has several entries of the kernel's for a key.
func severalEntries(a ir.Agg) bool {
	return a == ir.AggHist || a == ir.AggLinear || a == ir.AggSeries
}

// size returns the number of a map's elements, or of a stack's frames.
func (l *lowerer) size(c *syntax.Call) *ir.Expr {
	t := l.of(c)
	if _, ok := c.Args[0].(*syntax.Map); !ok {
		stack := l.expr(c.Args[0])
		if of := l.of(c.Args[0]); of.Kind == ir.KindTuple { // a user's has its process
			stack = &ir.Expr{Op: ir.OpElem, Int: 1, Args: []*ir.Expr{l.kept(c, stack, of)}}
		}
		return castTo(t, ir.NewExpr(ir.OpLen, stack))
	}
	m := l.mapOf(c)
	if m == nil {
		return ir.NewConst(0)
	}
	if severalEntries(m.IR.Agg) {
		return l.missing(c, "len() of a "+m.Value.String())
	}
	n := l.let(c, "len", constant(t, 0), t)
	l.add(c, &ir.Stmt{Op: ir.StmtForEach, Map: m.IR, Body: []*ir.Stmt{{
		Op: ir.StmtLet, Var: n, X: &ir.Expr{Op: ir.OpAdd, Type: t, Args: []*ir.Expr{ir.NewVar(n), constant(t, 1)}},
	}}})
	return ir.NewVar(n)
}
