package action

// The typed surface reads every value into a temporary at the moment its
// method is called. Most temporaries are read once, by one of the next
// statements: those are put back where they are read, so that text goes
// straight into an event and numbers stay in a register. What is never read is
// dropped.

// inline simplifies the blocks of a checked action.
func (c *checked) inline() {
	uses := map[*Var]int{}
	sets := map[*Var]int{}
	walkStmts(c.body, func(s *Stmt) {
		for _, v := range []*Var{s.Var, s.Var2} {
			if v != nil {
				sets[v]++
			}
		}
	}, func(e *Expr) {
		if e.Op == OpVar {
			uses[e.Var]++
		}
	})
	in := &inliner{uses: uses, sets: sets}
	c.body = in.block(c.body)
	kept := c.vars[:0]
	for _, v := range c.vars {
		if !in.gone[v] {
			kept = append(kept, v)
		}
	}
	c.vars = kept
}

type inliner struct {
	uses, sets map[*Var]int
	gone       map[*Var]bool
}

func (in *inliner) block(list []*Stmt) []*Stmt {
	list = append([]*Stmt(nil), list...)
	for i := len(list) - 1; i >= 0; i-- {
		s := list[i]
		if s.Op != StmtLet || in.sets[s.Var] != 1 {
			continue
		}
		switch in.uses[s.Var] {
		case 0:
			in.drop(list, i)
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

// drop removes a statement that sets a variable nobody reads.
func (in *inliner) drop(list []*Stmt, i int) {
	walkExpr(list[i].X, func(e *Expr) {
		if e.Op == OpVar {
			in.uses[e.Var]--
		}
	})
	in.remove(list, i)
}

func (in *inliner) remove(list []*Stmt, i int) {
	if in.gone == nil {
		in.gone = map[*Var]bool{}
	}
	in.gone[list[i].Var] = true
	list[i] = nil
}

// forward moves the value of statement i to the statement behind it that reads
// it, if only assignments stand between: they change nothing that it reads. What
// changes by itself is moved neither before nor behind another reading of that
// kind, nor what takes long: their order is what a program measures by.
func (in *inliner) forward(list []*Stmt, i int) {
	x, v := list[i].X, list[i].Var
	fast, timed := quick(x), readsClock(x)
	for j := i + 1; j < len(list); j++ {
		s := list[j]
		if s == nil {
			continue
		}
		if n := countVar(s.Key, v) + countVar(s.X, v); n > 0 {
			if timed && (s.Op == StmtEmit || !quick(s.Key) || !quick(s.X)) || !fast && (readsClock(s.Key) || readsClock(s.X)) {
				return
			}
			n := *s
			n.Key, n.X = replaceVar(s.Key, v, x), replaceVar(s.X, v, x)
			list[j] = &n
			in.remove(list, i)
			return
		}
		if s.Op != StmtLet || in.sets[s.Var] != 1 || timed && !quick(s.X) || !fast && readsClock(s.X) || readsVarSetTwice(x, in.sets) {
			return
		}
	}
}

func readsVarSetTwice(e *Expr, sets map[*Var]int) bool {
	found := false
	walkExpr(e, func(e *Expr) { found = found || e.Op == OpVar && sets[e.Var] > 1 })
	return found
}

// clocks are the builtins that change by themselves while a probe runs.
var clocks = map[string]bool{
	"nsecs": true, "nsecs_boot": true, "nsecs_tai": true, "nsecs_sw_tai": true, "elapsed": true, "jiffies": true, "rand": true,
}

// readsClock says whether e reads what changes by itself.
func readsClock(e *Expr) bool {
	found := false
	walkExpr(e, func(e *Expr) { found = found || e.Op == OpBuiltin && clocks[e.Str] })
	return found
}

// quick says whether e is a handful of instructions that are always run: neither
// a clock, nor memory, text, maps or stacks, nor a choice.
func quick(e *Expr) bool {
	q := true
	walkExpr(e, func(e *Expr) {
		switch e.Op {
		case OpConst, OpVar, opCtx, OpAdd, OpSub, OpMul, OpDiv, OpMod, OpAnd, OpOr, OpXor, OpShl, OpShr, OpNeg, OpNot,
			OpEq, OpNe, OpLt, OpLe, OpGt, OpGe, OpLNot, OpCast, OpBswap, OpTuple, OpElem:
		case OpBuiltin:
			q = q && !clocks[e.Str]
		default:
			q = false
		}
	})
	return q
}

func countVar(e *Expr, v *Var) int {
	n := 0
	walkExpr(e, func(e *Expr) {
		if e.Op == OpVar && e.Var == v {
			n++
		}
	})
	return n
}

// replaceVar is e with a variable replaced by a value.
func replaceVar(e *Expr, v *Var, x *Expr) *Expr {
	if e == nil || countVar(e, v) == 0 {
		return e
	}
	if e.Op == OpVar {
		return x
	}
	n := *e
	n.Args = make([]*Expr, len(e.Args))
	for i, a := range e.Args {
		n.Args[i] = replaceVar(a, v, x)
	}
	return &n
}
