package types

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
)

const overflows = "unable to fold literals due to overflow or underflow"

// fold replaces expressions of literals by their values.
func (c *checker) fold() {
	conds := map[syntax.Node]bool{} // comptimes that an if decides on, with its branches
	for n := range syntax.All(c.file) {
		if n, ok := n.(*syntax.If); ok {
			if _, ok := n.Cond.(*syntax.Comptime); ok {
				conds[n.Cond] = true
			}
		}
	}
	syntax.Rewrite(c.file, func(n syntax.Node) syntax.Node {
		if conds[n] {
			return nil
		}
		return c.foldNode(n)
	})
}

// foldNode returns what replaces a node whose children are folded, or nil.
func (c *checker) foldNode(n syntax.Node) syntax.Node {
	switch n := n.(type) {
	case *syntax.Unary:
		return c.foldUnary(n)
	case *syntax.Binary:
		return c.foldBinary(n)
	case *syntax.If:
		return foldIf(n)
	case *syntax.Call:
		return foldStr(n)
	case *syntax.ExprStmt:
		if b, ok := n.X.(*syntax.Block); ok && len(b.Stmts) == 1 && none(b.Value) {
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
		if t, ok := n.X.(*syntax.Tuple); ok && literal(t) && n.N < uint64(len(t.Elems)) {
			return t.Elems[n.N]
		}
	case *syntax.Field:
		if r, ok := n.X.(*syntax.Record); ok && literal(r) {
			for _, e := range r.Elems {
				if e.Name == n.Name {
					return e.Value
				}
			}
		}
	case *syntax.Comptime:
		if literal(n.X) {
			return n.X
		}
		if in, ok := n.X.(*syntax.Comptime); ok {
			return in.X
		}
	}
	return nil
}

func none(n syntax.Node) bool {
	_, ok := n.(*syntax.None)
	return ok || n == nil
}

// literal reports whether an expression is a value that is written out.
func literal(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Integer, *syntax.Boolean, *syntax.String, *syntax.Param, *syntax.ParamCount:
		return true
	case *syntax.Tuple:
		for _, e := range n.Elems {
			if !literal(e) {
				return false
			}
		}
		return true
	case *syntax.Record:
		for _, e := range n.Elems {
			if !literal(e.Value) {
				return false
			}
		}
		return true
	}
	return false
}

// truth is what a literal is as a condition.
func truth(n syntax.Node) bool {
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
		if !literal(ct.X) {
			return nil
		}
		if truth(ct.X) {
			return then
		}
		return n.Else
	}
	if !literal(n.Cond) {
		return nil
	}
	yes := truth(n.Cond)
	if literal(then) && literal(n.Else) {
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
		if e, ok := s.(*syntax.ExprStmt); ok && none(e.X) {
			continue
		}
		kept = append(kept, s)
	}
	n.Stmts = kept
	if _, tuple := n.Value.(*syntax.Tuple); len(kept) == 0 && (literal(n.Value) || tuple || none(n.Value)) {
		return n.Value
	}
	return nil
}

// foldStr makes a string of str of a literal.
func foldStr(n *syntax.Call) syntax.Node {
	if n.Name != "str" || len(n.Args) == 0 {
		return nil
	}
	s := ""
	switch a := n.Args[0].(type) {
	case *syntax.Integer:
		s = decimal(a)
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

func decimal(n *syntax.Integer) string {
	s := strconv.FormatUint(n.Value, 10)
	if n.Negative {
		return "-" + s
	}
	return s
}

func (c *checker) foldUnary(n *syntax.Unary) syntax.Node {
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
			c.fail(n, "negative value will underflow")
			return nil
		case x.Value == 0:
			return x
		}
		return &syntax.Integer{Loc: n.Loc, Value: x.Value, Negative: true}
	}
	return nil
}

func (c *checker) foldBinary(n *syntax.Binary) syntax.Node {
	x, y := n.X, n.Y
	if _, ok := x.(*syntax.String); !ok {
		x, y = y, x
	}
	if s, ok := x.(*syntax.String); ok {
		return c.foldText(n, s, y)
	}
	if b, other, ok := boolAnd(n); ok {
		switch o := other.(type) {
		case *syntax.Boolean:
			return c.foldBools(n, b, n.X.(*syntax.Boolean).Value, n.Y.(*syntax.Boolean).Value)
		case *syntax.Integer:
			if n.Op == "&&" || n.Op == "||" {
				return c.foldBools(n, b, b.Value, o.Value != 0)
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
	return c.foldIntegers(n, a, b)
}

func boolAnd(n *syntax.Binary) (b *syntax.Boolean, other syntax.Expr, ok bool) {
	if b, ok = n.X.(*syntax.Boolean); ok {
		return b, n.Y, true
	}
	b, ok = n.Y.(*syntax.Boolean)
	return b, n.X, ok
}

// foldText folds an operation of a string: "text" + 2 leaves out two bytes.
func (c *checker) foldText(n *syntax.Binary, s *syntax.String, other syntax.Expr) syntax.Node {
	boolean := func(v bool) syntax.Node { return &syntax.Boolean{Loc: n.Loc, Value: v} }
	switch o := other.(type) {
	case *syntax.Integer:
		if n.Op != "+" || o.Negative {
			return nil
		}
		if o.Value >= uint64(len(s.Value)) {
			c.warn(n, "literal string will always be empty")
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
		if v, ok := compared(n.Op, strings.Compare(s.Value, o.Value)); ok {
			return boolean(v)
		}
		switch n.Op { // the second one counts if it is empty, in bpftrace
		case "&&":
			return boolean(s.Value != "" && o.Value == "")
		case "||":
			return boolean(s.Value != "" || o.Value == "")
		case "+":
			return &syntax.String{Loc: n.Loc, Value: s.Value + o.Value}
		}
		c.fail(n, "illegal literal operation with strings")
	}
	return nil
}

// compared is what a comparison says of an order.
func compared(op string, order int) (res, ok bool) {
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

// foldBools is an operation of booleans, of which the first operand may be either one.
func (c *checker) foldBools(n *syntax.Binary, _ *syntax.Boolean, x, y bool) syntax.Node {
	v, ok := compared(n.Op, number(x)-number(y))
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
				c.fail(n, overflows)
			}
		case "<<":
			v = !x && y
		case ">>":
			v = x && !y
		}
	}
	return &syntax.Boolean{Loc: n.Loc, Value: v}
}

// sameGroups compares two literals, tuples or records, if that can be said already.
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
	if !literal(x) || !literal(y) {
		return false, false
	}
	if same, known = sameGroups(x, y); known {
		return same, known
	}
	return syntax.Equal(x, y), true
}

func (c *checker) foldIntegers(n *syntax.Binary, x, y *syntax.Integer) syntax.Node {
	mixed := x.Negative != y.Negative
	if mixed && (!x.Negative && x.Value > math.MaxInt64 || !y.Negative && y.Value > math.MaxInt64) {
		c.fail(n, overflows)
		return nil
	}
	if v, ok := compared(n.Op, order(x, y)); ok {
		return &syntax.Boolean{Loc: n.Loc, Value: v}
	}
	switch n.Op {
	case "&&":
		return &syntax.Boolean{Loc: n.Loc, Value: x.Value != 0 && y.Value != 0}
	case "||":
		return &syntax.Boolean{Loc: n.Loc, Value: x.Value != 0 || y.Value != 0}
	}
	var res *syntax.Integer
	var ok bool
	if x.Negative || y.Negative {
		res, ok = signed(n.Op, value(x), value(y))
	} else {
		res, ok = unsigned(n.Op, x.Value, y.Value)
	}
	if !ok {
		c.fail(n, overflows)
		return nil
	}
	res.Loc = n.Loc
	return res
}

// value is a literal in two's complement.
func value(n *syntax.Integer) int64 {
	if n.Negative {
		return -int64(n.Value)
	}
	return int64(n.Value)
}

func order(x, y *syntax.Integer) int {
	less := x.Value < y.Value
	if x.Negative || y.Negative {
		less = value(x) < value(y)
	}
	switch {
	case x.Negative == y.Negative && x.Value == y.Value:
		return 0
	case less:
		return -1
	}
	return 1
}

func ofInt64(v int64) *syntax.Integer {
	if v < 0 {
		return &syntax.Integer{Value: -uint64(v), Negative: true}
	}
	return &syntax.Integer{Value: uint64(v)}
}

// unsigned is an operation of two numbers that are not negative; false where it has no
// result of 64 bits.
func unsigned(op string, x, y uint64) (*syntax.Integer, bool) {
	res, ok := uint64(0), true
	switch op {
	case "+":
		var carry uint64
		res, carry = bits.Add64(x, y, 0)
		ok = carry == 0
	case "-":
		if x < y {
			return &syntax.Integer{Value: y - x, Negative: true}, y-x <= 1<<63
		}
		res = x - y
	case "*":
		var high uint64
		high, res = bits.Mul64(x, y)
		ok = high == 0
	case "/", "%":
		if y == 0 {
			return nil, false
		}
		if res = x / y; op == "%" {
			res = x % y
		}
	case "&":
		res = x & y
	case "|":
		res = x | y
	case "^":
		res = x ^ y
	case "<<":
		res, ok = x<<y, y < 64
	case ">>":
		res, ok = x>>y, y < 64
	default:
		ok = false
	}
	return &syntax.Integer{Value: res}, ok
}

// signed is an operation of two numbers of which one is negative at least.
func signed(op string, x, y int64) (*syntax.Integer, bool) {
	switch op {
	case "+":
		s := x + y
		return ofInt64(s), (x < 0) != (y < 0) || x == 0 || y == 0 || s < 0
	case "-":
		d := x - y
		return ofInt64(d), (x < 0) == (y < 0) || x == 0 && y != math.MinInt64 || (d < 0) == (x < 0)
	case "*":
		high, low := bits.Mul64(magnitude(x), magnitude(y))
		if (x < 0) == (y < 0) || low == 0 {
			return &syntax.Integer{Value: low}, high == 0
		}
		return &syntax.Integer{Value: low, Negative: true}, high == 0 && low <= 1<<63
	case "/", "%":
		if y == 0 || x == math.MinInt64 && y == -1 {
			return nil, false
		}
		if op == "%" {
			return ofInt64(x % y), true
		}
		return ofInt64(x / y), true
	case "&":
		return ofInt64(x & y), true
	case "|":
		return ofInt64(x | y), true
	case "^":
		return ofInt64(x ^ y), true
	}
	if y < 0 || y >= 64 {
		return nil, false
	}
	switch op {
	case "<<":
		return ofInt64(x << y), true
	case ">>":
		return ofInt64(x >> y), true
	}
	return nil, false
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}
