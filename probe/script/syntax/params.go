package syntax

import (
	"fmt"
)

// SetParams replaces the positional parameters in f by their values, as bpftrace does. $1
// becomes an integer if it is a number, 0 if it is missing, and a string otherwise; in str($1)
// and str($1 + n) it is always a string. $# becomes the number of parameters. SetParams
// returns warnings, or nil.
func SetParams(f *File, params []string) Errors {
	var warnings Errors
	value := func(n int64) string {
		if n >= 1 && n <= int64(len(params)) {
			return params[n-1]
		}
		return ""
	}
	asText := map[Node]bool{}
	Walk(f, func(n Node) bool {
		if c, ok := n.(*Call); ok && c.Name == "str" && len(c.Args) > 0 {
			x := c.Args[0]
			if b, ok := x.(*Binary); ok && b.Op == "+" {
				x = b.X
			}
			if p, ok := x.(*Param); ok {
				asText[p] = true
			}
		}
		return true
	})
	Rewrite(f, func(n Node) Node {
		switch n := n.(type) {
		case *ParamCount:
			return &Integer{Loc: n.Loc, Value: uint64(len(params))}
		case *Param:
			s := value(n.N)
			if asText[n] {
				return &String{n.Loc, s}
			}
			if s == "" {
				warnings = append(warnings, &Error{
					Loc: n.Loc, Severity: SeverityWarning,
					Msg: fmt.Sprintf("Positional parameter $%d is empty or not provided. ", n.N),
				})
			}
			return paramValue(n.Loc, s)
		}
		return nil
	})
	return warnings
}

// paramValue returns the value of a parameter that may be a number.
func paramValue(l Loc, s string) Expr {
	if s == "" {
		return &Integer{Loc: l}
	}
	digits, negative := s, s[0] == '-'
	if negative {
		digits = s[1:]
	}
	n, err := ParseInteger(digits)
	if err != nil || negative && n > 1<<63 {
		return &String{l, s}
	}
	return &Integer{Loc: l, Value: n, Negative: negative}
}
