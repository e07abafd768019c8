// Package fold replaces constant expressions in bpftrace's scripts by their values, with the
// rules of 0.26.1: signed and unsigned numbers of 64 bits, strings, booleans, tuples and
// records.
package fold

import (
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
)

// mostText is the largest length of a string that is made of two.
const mostText = 64 << 10

const overflows = "unable to fold literals due to overflow or underflow"

// Report is called with an error or a warning about n.
type Report func(n syntax.Node, s syntax.Severity, msg string)

// File replaces the constant expressions in a script by their values.
func File(file *syntax.File, report Report) {
	f := &folder{report}
	conds := map[syntax.Node]bool{} // conditions of ifs: foldIf folds them with the branches
	for n := range syntax.All(file) {
		if n, ok := n.(*syntax.If); ok {
			if _, ok := n.Cond.(*syntax.Comptime); ok {
				conds[n.Cond] = true
			}
		}
	}
	syntax.Rewrite(file, func(n syntax.Node) syntax.Node {
		if conds[n] {
			return nil
		}
		return f.foldNode(n)
	})
}

type folder struct{ report Report }

func (f *folder) fail(n syntax.Node, msg string) { f.report(n, syntax.SeverityError, msg) }
func (f *folder) warn(n syntax.Node, msg string) { f.report(n, syntax.SeverityWarning, msg) }

// foldNode returns the replacement of a node, or nil. The node's children are already folded.
func (f *folder) foldNode(n syntax.Node) syntax.Node {
	switch n := n.(type) {
	case *syntax.Unary:
		return f.foldUnary(n)
	case *syntax.Binary:
		return f.foldBinary(n)
	case *syntax.If:
		return foldIf(n)
	case *syntax.Call:
		return foldStr(n)
	case *syntax.ExprStmt:
		if b, ok := n.X.(*syntax.Block); ok && len(b.Stmts) == 1 && None(b.Value) {
			if s, ok := b.Stmts[0].(*syntax.ExprStmt); ok {
				n.X = s.X
			}
		}
	case *syntax.Block:
		return foldBlock(n)
	case *syntax.Index:
		s, isText := n.X.(*syntax.String)
		i, isInt := n.I.(*syntax.Integer)
		if isText && isInt && !i.Negative && i.Value <= uint64(len(s.Value)) {
			b := byte(0)
			if i.Value < uint64(len(s.Value)) {
				b = s.Value[i.Value]
			}
			return &syntax.Integer{Loc: n.Loc, Value: uint64(int64(int8(b)))}
		}
	case *syntax.Element:
		if t, ok := n.X.(*syntax.Tuple); ok && Literal(t) && n.N < uint64(len(t.Elems)) {
			return t.Elems[n.N]
		}
	case *syntax.Field:
		if r, ok := n.X.(*syntax.Record); ok && Literal(r) {
			for _, e := range r.Elems {
				if e.Name == n.Name {
					return e.Value
				}
			}
		}
	case *syntax.Comptime:
		if Literal(n.X) {
			return n.X
		}
		if in, ok := n.X.(*syntax.Comptime); ok {
			return in.X
		}
	}
	return nil
}

// None reports whether there is no expression.
func None(n syntax.Node) bool {
	_, ok := n.(*syntax.None)
	return ok || n == nil
}

// Literal reports whether an expression is a literal, or a tuple or record of literals.
func Literal(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Integer, *syntax.Boolean, *syntax.String, *syntax.Param, *syntax.ParamCount:
		return true
	case *syntax.Tuple:
		for _, e := range n.Elems {
			if !Literal(e) {
				return false
			}
		}
		return true
	case *syntax.Record:
		for _, e := range n.Elems {
			if !Literal(e.Value) {
				return false
			}
		}
		return true
	}
	return false
}

// Truth returns the value of a literal as a condition.
func Truth(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Integer:
		return n.Value != 0
	case *syntax.String:
		return n.Value != ""
	case *syntax.Boolean:
		return n.Value
	}
	return false
}

func foldIf(n *syntax.If) syntax.Node {
	then := n.Then
	if then == nil {
		then = n.Cond
	}
	if ct, ok := n.Cond.(*syntax.Comptime); ok {
		if !Literal(ct.X) {
			return nil
		}
		if Truth(ct.X) {
			return then
		}
		return n.Else
	}
	if !Literal(n.Cond) {
		return nil
	}
	yes := Truth(n.Cond)
	if Literal(then) && Literal(n.Else) {
		if yes {
			return then
		}
		return n.Else
	}
	n.Then = then
	n.Cond = &syntax.Boolean{Loc: *n.Cond.At(), Value: yes}
	return nil
}

func foldBlock(n *syntax.Block) syntax.Node {
	kept := n.Stmts[:0]
	for _, s := range n.Stmts {
		if e, ok := s.(*syntax.ExprStmt); ok && None(e.X) {
			continue
		}
		kept = append(kept, s)
	}
	n.Stmts = kept
	_, tuple := n.Value.(*syntax.Tuple)
	if len(kept) == 0 && (Literal(n.Value) || tuple || None(n.Value)) {
		return n.Value
	}
	return nil
}

// foldStr replaces str of a literal by a string.
func foldStr(n *syntax.Call) syntax.Node {
	if n.Name != "str" || len(n.Args) == 0 {
		return nil
	}
	s := ""
	switch a := n.Args[0].(type) {
	case *syntax.Integer:
		s = Decimal(a)
	case *syntax.String:
		s = a.Value
	default:
		return nil
	}
	if len(n.Args) > 1 {
		size, ok := n.Args[1].(*syntax.Integer)
		if !ok || size.Negative {
			return nil
		}
		if uint64(len(s)) >= size.Value {
			s = s[:size.Value]
		}
	}
	return &syntax.String{Loc: n.Loc, Value: s}
}

// Decimal returns a literal in decimal.
func Decimal(n *syntax.Integer) string {
	s := strconv.FormatUint(n.Value, 10)
	if n.Negative {
		return "-" + s
	}
	return s
}

func (f *folder) foldUnary(n *syntax.Unary) syntax.Node {
	if b, ok := n.X.(*syntax.Boolean); ok && n.Op == "!" {
		return &syntax.Boolean{Loc: n.Loc, Value: !b.Value}
	}
	x, ok := n.X.(*syntax.Integer)
	if !ok {
		return nil
	}
	switch n.Op {
	case "~":
		if x.Negative {
			return &syntax.Integer{Loc: n.Loc, Value: x.Value - 1}
		}
		return &syntax.Integer{Loc: n.Loc, Value: ^x.Value}
	case "!":
		return &syntax.Boolean{Loc: n.Loc, Value: x.Value == 0}
	case "-":
		switch {
		case x.Negative:
			return &syntax.Integer{Loc: n.Loc, Value: x.Value}
		case x.Value > 1<<63:
			f.fail(n, "negative value will underflow")
			return nil
		case x.Value == 0:
			return x
		}
		return &syntax.Integer{Loc: n.Loc, Value: x.Value, Negative: true}
	}
	return nil
}

func (f *folder) foldBinary(n *syntax.Binary) syntax.Node {
	x, y := n.X, n.Y
	if _, ok := x.(*syntax.String); !ok {
		x, y = y, x
	}
	if s, ok := x.(*syntax.String); ok {
		return f.foldText(n, s, y)
	}
	if b, other, ok := boolAnd(n); ok {
		switch o := other.(type) {
		case *syntax.Boolean:
			return f.foldBools(n, b, n.X.(*syntax.Boolean).Value, n.Y.(*syntax.Boolean).Value)
		case *syntax.Integer:
			if n.Op == "&&" || n.Op == "||" {
				return f.foldBools(n, b, b.Value, o.Value != 0)
			}
		}
	}
	if equal := n.Op == "=="; equal || n.Op == "!=" {
		if same, known := sameGroups(n.X, n.Y); known {
			return &syntax.Boolean{Loc: n.Loc, Value: same == equal}
		}
	}
	a, ok1 := n.X.(*syntax.Integer)
	b, ok2 := n.Y.(*syntax.Integer)
	if !ok1 || !ok2 {
		return nil
	}
	return f.foldIntegers(n, a, b)
}

func boolAnd(n *syntax.Binary) (b *syntax.Boolean, other syntax.Expr, ok bool) {
	if b, ok = n.X.(*syntax.Boolean); ok {
		return b, n.Y, true
	}
	b, ok = n.Y.(*syntax.Boolean)
	return b, n.X, ok
}

// foldText folds an operation with a string. "text" + 2 is the string without its first two
// bytes.
func (f *folder) foldText(n *syntax.Binary, s *syntax.String, other syntax.Expr) syntax.Node {
	boolean := func(v bool) syntax.Node { return &syntax.Boolean{Loc: n.Loc, Value: v} }
	switch o := other.(type) {
	case *syntax.Integer:
		if n.Op != "+" || o.Negative {
			return nil
		}
		if o.Value >= uint64(len(s.Value)) {
			f.warn(n, "literal string will always be empty")
			return &syntax.String{Loc: n.Loc}
		}
		return &syntax.String{Loc: n.Loc, Value: s.Value[o.Value:]}
	case *syntax.Boolean:
		switch n.Op {
		case "&&":
			return boolean(s.Value != "" && o.Value)
		case "||":
			return boolean(s.Value != "" || o.Value)
		}
	case *syntax.String:
		if v, ok := Compared(n.Op, strings.Compare(s.Value, o.Value)); ok {
			return boolean(v)
		}
		switch n.Op { // bpftrace treats the second operand as true if it is empty
		case "&&":
			return boolean(s.Value != "" && o.Value == "")
		case "||":
			return boolean(s.Value != "" || o.Value == "")
		case "+":
			if len(s.Value)+len(o.Value) > mostText {
				f.fail(n, "the string has more than "+strconv.Itoa(mostText)+" bytes")
				return nil
			}
			return &syntax.String{Loc: n.Loc, Value: s.Value + o.Value}
		}
		f.fail(n, "illegal literal operation with strings")
	}
	return nil
}

// Compared returns the result of the comparison op for operands with that order (negative, 0
// or positive). ok is false if op is not a comparison.
func Compared(op string, order int) (res, ok bool) {
	switch op {
	case "==":
		return order == 0, true
	case "!=":
		return order != 0, true
	case "<=":
		return order <= 0, true
	case ">=":
		return order >= 0, true
	case "<":
		return order < 0, true
	case ">":
		return order > 0, true
	}
	return false, false
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// foldBools folds an operation of the booleans x and y.
func (f *folder) foldBools(n *syntax.Binary, _ *syntax.Boolean, x, y bool) syntax.Node {
	v, ok := Compared(n.Op, number(x)-number(y))
	if !ok {
		switch n.Op {
		case "&&", "*", "&":
			v = x && y
		case "||", "+", "|":
			v = x || y
		case "-", "^":
			v = x != y
		case "/", "%":
			if v = n.Op == "/" && x && y; !y {
				f.fail(n, overflows)
			}
		case "<<":
			v = !x && y
		case ">>":
			v = x && !y
		}
	}
	return &syntax.Boolean{Loc: n.Loc, Value: v}
}

// sameGroups compares two tuples or records. known is false if that needs values that are not
// literals.
func sameGroups(x, y syntax.Expr) (same, known bool) {
	switch x := x.(type) {
	case *syntax.Tuple:
		y, ok := y.(*syntax.Tuple)
		if !ok {
			return false, false
		}
		if len(x.Elems) != len(y.Elems) {
			return false, true
		}
		for i := range x.Elems {
			if same, known = sameLiterals(x.Elems[i], y.Elems[i]); !known || !same {
				return same, known
			}
		}
		return true, true
	case *syntax.Record:
		y, ok := y.(*syntax.Record)
		if !ok {
			return false, false
		}
		if len(x.Elems) != len(y.Elems) {
			return false, true
		}
		for _, e := range x.Elems {
			var other syntax.Expr
			for _, g := range y.Elems {
				if g.Name == e.Name {
					other = g.Value
					break
				}
			}
			if other == nil {
				return false, false
			}
			if same, known = sameLiterals(e.Value, other); !known || !same {
				return same, known
			}
		}
		return true, true
	}
	return false, false
}

func sameLiterals(x, y syntax.Expr) (same, known bool) {
	if !Literal(x) || !Literal(y) {
		return false, false
	}
	if same, known = sameGroups(x, y); known {
		return same, known
	}
	return syntax.Equal(x, y), true
}
