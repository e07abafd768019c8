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
// it, if only assignments stand between: they change nothing that it reads. A
// clock is not moved behind another.
func (in *inliner) forward(list []*Stmt, i int) {
	clock := readsClock(list[i].X)
	for j := i + 1; j < len(list); j++ {
		s := list[j]
		if s == nil {
			continue
		}
		if n := countVar(s.Key, list[i].Var) + countVar(s.X, list[i].Var); n > 0 {
			if clock && s.Op != StmtLet && takesLong(s) {
				return
			}
			n := *s
			n.Key, n.X = replaceVar(s.Key, list[i].Var, list[i].X), replaceVar(s.X, list[i].Var, list[i].X)
			list[j] = &n
			in.remove(list, i)
			return
		}
		if s.Op != StmtLet || in.sets[s.Var] != 1 || clock && readsClock(s.X) || readsVarSetTwice(list[i].X, in.sets) {
			return
		}
	}
}

// takesLong says whether a statement does much before it evaluates its value:
// an event's other fields, for one.
func takesLong(s *Stmt) bool { return s.Op == StmtEmit }

func readsVarSetTwice(e *Expr, sets map[*Var]int) bool {
	found := false
	walkExpr(e, func(e *Expr) { found = found || e.Op == OpVar && sets[e.Var] > 1 })
	return found
}

// readsClock says whether e reads what changes by itself.
func readsClock(e *Expr) bool {
	found := false
	walkExpr(e, func(e *Expr) {
		if e.Op == OpBuiltin {
			switch e.Str {
			case "nsecs", "nsecs_boot", "nsecs_tai", "elapsed", "jiffies":
				found = true
			}
		}
	})
	return found
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
