package fold

import (
	"math"
	"math/bits"

	"github.com/borescope/borescope/probe/script/syntax"
)

// foldIntegers folds an operation of two numbers.
func (f *folder) foldIntegers(n *syntax.Binary, x, y *syntax.Integer) syntax.Node {
	mixed := x.Negative != y.Negative
	if mixed && (!x.Negative && x.Value > math.MaxInt64 || !y.Negative && y.Value > math.MaxInt64) {
		f.fail(n, overflows)
		return nil
	}
	if v, ok := Compared(n.Op, order(x, y)); ok {
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
		f.fail(n, overflows)
		return nil
	}
	res.Loc = n.Loc
	return res
}

// value returns a literal in two's complement.
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

// Integer returns a literal with a value and a place.
func Integer(l syntax.Loc, v int64) *syntax.Integer {
	n := ofInt64(v)
	n.Loc = l
	return n
}

func ofInt64(v int64) *syntax.Integer {
	if v < 0 {
		return &syntax.Integer{Value: -uint64(v), Negative: true}
	}
	return &syntax.Integer{Value: uint64(v)}
}

// unsigned computes an operation of two numbers that are not negative. It returns false if
// the result does not fit into 64 bits, or does not exist.
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

// signed computes an operation of two numbers of which at least one is negative, like
// unsigned.
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
