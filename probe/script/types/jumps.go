package types

import "github.com/borescope/borescope/probe/script/syntax"

// jumps checks where break, continue and return stand, and has functions return at
// their end.
func (c *checker) jumps() {
	c.top(func(n syntax.Node) {
		switch n := n.(type) {
		case *syntax.Probe:
			c.jumpsIn(n.Body, "probe", "break", "continue")
		case *syntax.Func:
			c.jumpsIn(n.Body, "function", "break", "continue")
			if !returns(n.Body) {
				c.addReturn(n.Body)
			}
		}
	})
}

// jumpsIn refuses some jumps in a block. Loops allow others, but return only as their place
// does.
func (c *checker) jumpsIn(n syntax.Node, where string, refused ...string) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.For:
			c.jumpsIn(n.Body, "for-loop", "return")
			return false
		case *syntax.While:
			if len(refused) == 1 {
				c.jumpsIn(n.Body, "while-loop", "return")
			} else {
				c.jumpsIn(n.Body, "while-loop")
			}
			return false
		case *syntax.Jump:
			for _, r := range refused {
				if n.Keyword == r {
					c.fail(n, "'"+r+"' statement is not allowed in a "+where)
				}
			}
		}
		return true
	})
}

// returns reports whether a statement or expression never ends but by a return.
func returns(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Jump:
		return n.Keyword == "return"
	case *syntax.ExprStmt:
		return returns(n.X)
	case *syntax.If:
		return returns(n.Cond) || n.Then != nil && returns(n.Then) && returns(n.Else)
	case *syntax.Block:
		for _, s := range n.Stmts {
			if returns(s) {
				return true
			}
		}
		return n.Value != nil && returns(n.Value)
	case *syntax.Unroll:
		return returns(n.Body)
	case *syntax.While:
		return returns(n.Body)
	}
	return false
}

// addReturn adds a return to the end of a block, or to the ends of its last statement.
func (c *checker) addReturn(b *syntax.Block) {
	if !none(b.Value) {
		b.Value = c.withReturn(b.Value)
		return
	}
	if n := len(b.Stmts); n > 0 {
		if s, ok := b.Stmts[n-1].(*syntax.ExprStmt); ok {
			s.X = c.withReturn(s.X)
			return
		}
	}
	b.Stmts = append(b.Stmts, &syntax.Jump{Loc: b.Loc, Keyword: "return"})
}

func (c *checker) withReturn(x syntax.Expr) syntax.Expr {
	switch x := x.(type) {
	case *syntax.Block:
		c.addReturn(x)
		return x
	case *syntax.If:
		if x.Then == nil {
			break
		}
		if !returns(x.Then) {
			x.Then = c.withReturn(x.Then)
		}
		if !returns(x.Else) {
			x.Else = c.withReturn(x.Else)
		}
		return x
	}
	l := *x.At()
	return &syntax.Block{
		Loc: l, Value: &syntax.None{Loc: l},
		Stmts: []syntax.Stmt{
			&syntax.ExprStmt{Loc: l, X: x}, &syntax.Jump{Loc: l, Keyword: "return"},
		},
	}
}
