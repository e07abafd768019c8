// Package flow checks the places of break, continue and return in bpftrace's scripts, and
// that variables are declared before they are used.
package flow

import (
	"slices"

	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/syntax"
)

// Report is called with an error or a warning about n, and returns it so that notes can be
// added.
type Report func(n syntax.Node, s syntax.Severity, msg string) *syntax.Error

// checker reports errors and warnings. It remembers what is known of blocks, since the blocks
// around them ask, too.
type checker struct {
	report         Report
	jumps, returns map[*syntax.Block]bool
}

func newChecker(report Report) *checker {
	return &checker{report, map[*syntax.Block]bool{}, map[*syntax.Block]bool{}}
}

func (c *checker) fail(n syntax.Node, msg string) *syntax.Error {
	return c.report(n, syntax.SeverityError, msg)
}

func (c *checker) warn(n syntax.Node, msg string) { c.report(n, syntax.SeverityWarning, msg) }

// Probe checks the jumps of a probe.
func Probe(n *syntax.Probe, report Report) {
	c := newChecker(report)
	c.loopReturns(n)
	c.jumpsIn(n.Body, "probe", "break", "continue")
	c.unreachable(n.Body)
}

// Func checks the jumps of a function, and adds a return at its end if it has none.
func Func(n *syntax.Func, report Report) {
	c := newChecker(report)
	c.loopReturns(n)
	c.jumpsIn(n.Body, "function", "break", "continue")
	c.unreachable(n.Body)
	if !c.ends(n.Body) {
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
			if !c.leaves(s) {
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

// leaves reports whether a statement always leaves its block.
func (c *checker) leaves(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Jump:
		return true
	case *syntax.ExprStmt:
		return c.leaves(n.X)
	case *syntax.If:
		return n.Then != nil && c.leaves(n.Then) && c.leaves(n.Else)
	case *syntax.Call:
		return n.Name == "exit" && len(n.Args) <= 1
	case *syntax.Block:
		return remember(c.jumps, n, c.leaves)
	}
	return false
}

// remember returns whether f is true for a statement of a block, or for its value, and stores
// that.
func remember(known map[*syntax.Block]bool, b *syntax.Block, f func(syntax.Node) bool) bool {
	if is, ok := known[b]; ok {
		return is
	}
	is := slices.ContainsFunc(b.Stmts, func(s syntax.Stmt) bool { return f(s) }) ||
		b.Value != nil && f(b.Value)
	known[b] = is
	return is
}

// ends reports whether a statement or expression always ends with a return.
func (c *checker) ends(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Jump:
		return n.Keyword == "return"
	case *syntax.ExprStmt:
		return c.ends(n.X)
	case *syntax.If:
		return c.ends(n.Cond) || n.Then != nil && c.ends(n.Then) && c.ends(n.Else)
	case *syntax.Block:
		return remember(c.returns, n, c.ends)
	case *syntax.Unroll:
		return c.ends(n.Body)
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
		if !c.ends(x.Then) {
			x.Then = c.withReturn(x.Then)
		}
		if !c.ends(x.Else) {
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
