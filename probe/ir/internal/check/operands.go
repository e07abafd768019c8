package check

import (
	"errors"
	"fmt"

	"github.com/borescope/borescope/probe/ir"
)

// checkArity says what is wrong with an expression's operation and the number of its operands.
func checkArity(e *ir.Expr) error {
	if e.Op == ir.OpInvalid && e.Str != "" {
		return errors.New(e.Str)
	}
	if e.Op == ir.OpInvalid || e.Op.String() == ir.OpInvalid.String() {
		return fmt.Errorf("no such operation: %d", e.Op)
	}
	least, most := e.Op.Arity()
	if n := len(e.Args); n < least || n > most {
		return fmt.Errorf("%d operands", n)
	}
	return nil
}

// shortString is an expression cut to what fits a message.
func shortString(e fmt.Stringer) string {
	s := e.String()
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}
