// Package flow checks the places of break, continue and return in bpftrace's scripts, and
// that variables are declared before they are used.
package flow

import (
	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/syntax"
)

// Report is called with an error or a warning about n, and returns it so that notes can be
// added.
type Report func(n syntax.Node, s syntax.Severity, msg string) *syntax.Error

// checker reports errors and warnings.
type checker struct{ report Report }

func (c *checker) fail(n syntax.Node, msg string) *syntax.Error {
	return c.report(n, syntax.SeverityError, msg)
}

func (c *checker) warn(n syntax.Node, msg string) { c.report(n, syntax.SeverityWarning, msg) }

// Probe checks the jumps of a probe.
func Probe(n *syntax.Probe, report Report) {
	c := &checker{report}
	c.loopReturns(n)
	c.jumpsIn(n.Body, "probe", "break", "continue")
	c.unreachable(n.Body)
}

// Func checks the jumps of a function, and adds a return at its end if it has none.
func Func(n *syntax.Func, report Report) {
	c := &checker{report}
	c.loopReturns(n)
	c.jumpsIn(n.Body, "function", "break", "continue")
	c.unreachable(n.Body)
	if !returns(n.Body) {
		c.addReturn(n.Body)
	}
}

// jumpsIn refuses some jumps in a block, except in loops.
func (c *checker) jumpsIn(n syntax.Node, where string, refused ...string) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.For, *syntax.While:
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

// loopReturns refuses returns in the loops of one probe or function if some have a value and
// others do not.
func (c *checker) loopReturns(n syntax.Node) {
	var first *syntax.Jump
	check := func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Jump:
			switch {
			case n.Keyword != "return":
			case first == nil:
				first = n
			case (first.Value == nil) != (n.Value == nil):
				c.fail(n, "Return value used in loop is inconsistent")
			}
		}
		return true
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.For:
			syntax.Walk(n.Body, check)
			return false
		case *syntax.While:
			syntax.Walk(n.Body, check)
			return false
		}
		return true
	})
}

// unreachable warns of statements and values behind a jump in the same block.
func (c *checker) unreachable(n syntax.Node) {
	for n := range syntax.All(n) {
		b, ok := n.(*syntax.Block)
		if !ok {
			continue
		}
		for i, s := range b.Stmts {
			if !jumps(s) {
				continue
			}
			if i+1 < len(b.Stmts) {
				c.warn(b.Stmts[i+1], "Unreachable statement.")
			}
			if !fold.None(b.Value) {
				c.warn(b.Value, "Unreachable expression; block type is implicitly none.")
			}
			break
		}
	}
}

// jumps reports whether a statement always leaves its block.
func jumps(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Jump:
		return true
	case *syntax.ExprStmt:
		return jumps(n.X)
	case *syntax.If:
		return n.Then != nil && jumps(n.Then) && jumps(n.Else)
	case *syntax.Call:
		return n.Name == "exit" && len(n.Args) <= 1
	case *syntax.Block:
		for _, s := range n.Stmts {
			if jumps(s) {
				return true
			}
		}
		return n.Value != nil && jumps(n.Value)
	}
	return false
}

// returns reports whether a statement or expression always ends with a return.
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
	}
	return false
}

// addReturn adds a return at the end of a block, or at the ends of its last statement.
func (c *checker) addReturn(b *syntax.Block) {
	if !fold.None(b.Value) {
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
