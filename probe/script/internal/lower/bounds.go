package lower

import (
	"fmt"

	"github.com/borescope/borescope/probe/script/syntax"
)

// Bounds of what a script becomes.
const (
	// mostNested is how deep tuples are in each other, as types of programs are.
	mostNested = 8
	// mostNodes is the number of expressions and statements of a program. Scripts have no more,
	// but unroll repeats them.
	mostNodes = 1 << 15
)

// checkNesting refuses tuples and records that are too deep in each other: at each level, their
// types would be looked at as a whole.
func (l *lowerer) checkNesting(f *syntax.File) {
	depth := map[syntax.Node]int{} // of tuples in others
	syntax.Walk(f, func(n syntax.Node) bool {
		var elems []syntax.Expr
		switch n := n.(type) {
		case *syntax.Tuple:
			elems = n.Elems
		case *syntax.Record:
			for _, e := range n.Elems {
				elems = append(elems, e.Value)
			}
		default:
			return true
		}
		if depth[n] >= mostNested {
			l.fail(n, fmt.Sprintf("tuples nested more than %d deep", mostNested))
			return false
		}
		for _, e := range elems {
			depth[e] = depth[n] + 1
		}
		return true
	})
}

// count counts an expression or a statement. It reports whether there may be one more.
func (l *lowerer) count(n syntax.Node) bool {
	if l.nodes++; l.nodes == mostNodes+1 {
		l.fail(n, fmt.Sprintf("a program of more than %d expressions and statements", mostNodes))
	}
	return l.nodes <= mostNodes
}
