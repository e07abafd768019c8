package check

import (
	"errors"
	"fmt"

	"github.com/borescope/borescope/probe/ir"
)

// checkArity returns an error for an invalid operation or number of operands.
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

// shortString returns an expression for a message, cut to 80 bytes.
func shortString(e fmt.Stringer) string {
	s := e.String()
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}
