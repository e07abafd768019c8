package check

import "github.com/borescope/borescope/probe/ir"

// KeyArg is the key of a map expression, nil for a map without keys.
func KeyArg(e *ir.Expr) *ir.Expr {
	if len(e.Args) == 0 {
		return nil
	}
	return e.Args[0]
}
