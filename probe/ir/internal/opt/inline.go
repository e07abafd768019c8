package opt

import (
	"slices"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/builtin"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// The typed surface reads every value into a temporary when its method is called. Most
// temporaries are read once, by one of the next statements. Those are inlined where they are
// read, so that text is written directly into an event and numbers stay in a register.
// Temporaries that are never read are removed.

// Inline returns an equivalent of a checked action with simpler blocks. It does not change c.
func Inline(c *check.Checked) *check.Checked {
	uses := map[*ir.Var]int{}
	sets := map[*ir.Var]int{}
	addressed := map[*ir.Var]bool{}
	typed.Walk(c.Body, func(s *typed.Stmt) {
		for _, v := range s.Vars() {
			sets[v]++
		}
	}, func(e *typed.Node) {
		switch e.Op {
		case ir.OpVar:
			uses[e.Var]++
		case ir.OpVarAddr:
			addressed[e.Var] = true
		}
	})
	in := &inliner{uses: uses, sets: sets, addressed: addressed}
	out := *c
	out.Body = in.block(c.Body)
	out.Vars = slices.DeleteFunc(slices.Clone(c.Vars), func(v *ir.Var) bool { return in.gone[v] })
	return &out
}

type inliner struct {
	uses, sets map[*ir.Var]int
	addressed  map[*ir.Var]bool // those whose addresses are taken: they stay what they are
	gone       map[*ir.Var]bool
}

func (in *inliner) block(list []*typed.Stmt) []*typed.Stmt {
	list = append([]*typed.Stmt(nil), list...)
	for i := len(list) - 1; i >= 0; i-- {
		s := list[i]
		if s.Op != ir.StmtLet || in.sets[s.Var] != 1 || in.addressed[s.Var] {
			continue
		}
		switch in.uses[s.Var] {
		case 0:
			if !reports(s.X) {
				in.drop(list, i)
			}
		case 1:
			in.forward(list, i)
		}
	}
	out := list[:0]
	for _, s := range list {
		if s == nil {
			continue
		}
		if len(s.Body)+len(s.Else) > 0 {
			n := *s
			n.Body, n.Else = in.block(s.Body), in.block(s.Else)
			s = &n
		}
		out = append(out, s)
	}
	return out
}

// drop removes a statement that sets a variable which is never read.
func (in *inliner) drop(list []*typed.Stmt, i int) {
	list[i].X.Walk(func(e *typed.Node) {
		if e.Op == ir.OpVar {
			in.uses[e.Var]--
		}
	})
	in.remove(list, i)
}

func (in *inliner) remove(list []*typed.Stmt, i int) {
	if in.gone == nil {
		in.gone = map[*ir.Var]bool{}
	}
	in.gone[list[i].Var] = true
	list[i] = nil
}

// forward moves the value of statement i into the later statement that reads it, if there are
// only assignments between them, which change nothing that it reads. A clock's reading is not
// moved past another one or past a slow operation, nor a slow value past a clock's reading: a
// program measures time by their order.
func (in *inliner) forward(list []*typed.Stmt, i int) {
	x, v := list[i].X, list[i].Var
	fast, timed := quick(x), readsClock(x)
	for j := i + 1; j < len(list); j++ {
		s := list[j]
		if s == nil {
			continue
		}
		if countVar(s.Time, v) > 0 {
			return
		}
		if n := countVar(s.Key, v) + countVar(s.X, v); n > 0 {
			if timed && (s.Op == ir.StmtEmit || !quick(s.Key) || !quick(s.X)) ||
				!fast && (readsClock(s.Key) || readsClock(s.X)) {
				return
			}
			n := *s
			n.Key, n.X = replaceVar(s.Key, v, x), replaceVar(s.X, v, x)
			list[j] = &n
			in.remove(list, i)
			return
		}
		if s.Op != ir.StmtLet || in.sets[s.Var] != 1 || in.addressed[s.Var] || timed && !quick(s.X) ||
			!fast && readsClock(s.X) || readsVarSetTwice(x, in.sets) {
			return
		}
	}
}

// reports reports whether a failure in e is reported, also if nobody takes its value.
func reports(e *typed.Node) bool {
	found := false
	e.Walk(func(e *typed.Node) { found = found || e.Site != 0 })
	return found
}

func readsVarSetTwice(e *typed.Node, sets map[*ir.Var]int) bool {
	found := false
	e.Walk(func(e *typed.Node) { found = found || e.Op == ir.OpVar && sets[e.Var] > 1 })
	return found
}

// readsClock reports whether e reads a builtin whose value changes while a probe runs.
func readsClock(e *typed.Node) bool {
	found := false
	e.Walk(func(e *typed.Node) { found = found || clock(e) })
	return found
}

func clock(e *typed.Node) bool { return e.Op == ir.OpBuiltin && builtin.Named(e.Str).Clock }

// quick reports whether e is a few instructions that are always executed: no clock, memory,
// text, map or stack, and no choice.
func quick(e *typed.Node) bool {
	q := true
	e.Walk(func(e *typed.Node) {
		switch e.Op {
		case ir.OpConst, ir.OpVar, typed.Ctx, ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpMod, ir.OpAnd,
			ir.OpOr, ir.OpXor, ir.OpShl, ir.OpShr, ir.OpNeg, ir.OpNot,
			ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe, ir.OpLNot, ir.OpCast, ir.OpBswap,
			ir.OpTuple, ir.OpElem:
		case ir.OpBuiltin:
			q = q && !clock(e)
		default:
			q = false
		}
	})
	return q
}

func countVar(e *typed.Node, v *ir.Var) int {
	n := 0
	e.Walk(func(e *typed.Node) {
		if e.Op == ir.OpVar && e.Var == v {
			n++
		}
	})
	return n
}

// replaceVar returns e with a variable replaced by a value.
func replaceVar(e *typed.Node, v *ir.Var, x *typed.Node) *typed.Node {
	if e == nil || countVar(e, v) == 0 {
		return e
	}
	if e.Op == ir.OpVar {
		return x
	}
	n := *e
	n.Args = make([]*typed.Node, len(e.Args))
	for i, a := range e.Args {
		n.Args[i] = replaceVar(a, v, x)
	}
	return &n
}
