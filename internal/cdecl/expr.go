package cdecl

import (
	"math"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
)

// Value is the value of a constant expression, with the type that it has when used: at least
// int.
type Value struct {
	Bits     uint64 // in two's complement, extended to 64 bits
	Size     int    // 4 or 8 bytes
	Unsigned bool
}

// Negative reports whether the value is below 0.
func (v Value) Negative() bool { return !v.Unsigned && int64(v.Bits) < 0 }

// String returns the value in decimal.
func (v Value) String() string {
	if v.Unsigned {
		return strconv.FormatUint(v.Bits, 10)
	}
	return strconv.FormatInt(int64(v.Bits), 10)
}

// cut truncates the bits to the value's type.
func (v Value) cut() Value {
	switch {
	case v.Size != 4:
	case v.Unsigned:
		v.Bits = uint64(uint32(v.Bits))
	default:
		v.Bits = uint64(int64(int32(v.Bits)))
	}
	return v
}

// precedence returns C's precedence of an operator with two operands, 0 for other tokens.
func precedence(op string) int {
	switch op {
	case "||":
		return 1
	case "&&":
		return 2
	case "|":
		return 3
	case "^":
		return 4
	case "&":
		return 5
	case "==", "!=":
		return 6
	case "<", ">", "<=", ">=":
		return 7
	case "<<", ">>":
		return 8
	case "+", "-":
		return 9
	case "*", "/", "%":
		return 10
	}
	return 0
}

// evaluator parses and evaluates a constant expression.
type evaluator struct {
	*parser
	condition bool // of an #if: numbers have 64 bits, names are 0
	dead      int  // number of enclosing parts that are not evaluated
}

// expression reads a constant expression in a declaration.
func (p *parser) expression() Value { return (&evaluator{parser: p}).expression() }

// expression reads a constant expression, without commas.
func (e *evaluator) expression() Value {
	if !e.enter() {
		return Value{Size: 4}
	}
	defer e.leave()
	c := e.binary(e.unary(), 1)
	if !e.take("?") {
		return c
	}
	yes := c // GNU C: a ?: b
	if !e.tok.is(":") {
		yes = e.unless(c.Bits == 0, e.expression)
	}
	e.want(":", "what holds otherwise")
	no := e.unless(c.Bits != 0, e.expression)
	yes, no = common2(yes, no)
	if c.Bits != 0 {
		return yes
	}
	return no
}

// unless reads a part, which is not evaluated if dead is set.
func (e *evaluator) unless(dead bool, read func() Value) Value {
	if dead {
		e.dead++
		defer func() { e.dead-- }()
	}
	return read()
}

// binary reads the operators of at least the given precedence after left.
func (e *evaluator) binary(left Value, least int) Value {
	for e.err == nil {
		at := e.tok
		prec := precedence(at.text)
		if at.kind != isMark || prec < least {
			return left
		}
		e.next()
		dead := at.text == "&&" && left.Bits == 0 || at.text == "||" && left.Bits != 0
		right := e.unless(dead, func() Value { return e.binary(e.unary(), prec+1) })
		left = e.operate(at, left, right)
	}
	return left
}

// common2 converts two operands to their common type.
func common2(a, b Value) (Value, Value) {
	switch {
	case a.Size < b.Size:
		a.Size, a.Unsigned = b.Size, b.Unsigned
	case b.Size < a.Size:
		b.Size, b.Unsigned = a.Size, a.Unsigned
	default:
		a.Unsigned = a.Unsigned || b.Unsigned
		b.Unsigned = a.Unsigned
	}
	return a.cut(), b.cut()
}

// truth returns the value of a condition.
func (e *evaluator) truth(b bool) Value {
	v := e.int()
	if b {
		v.Bits = 1
	}
	return v
}

// int returns the int 0. In the condition of an #if all values are intmax_t.
func (e *evaluator) int() Value {
	if e.condition {
		return Value{Size: 8}
	}
	return Value{Size: 4}
}

func (e *evaluator) operate(at token, a, b Value) Value {
	switch at.text {
	case "&&":
		return e.truth(a.Bits != 0 && b.Bits != 0)
	case "||":
		return e.truth(a.Bits != 0 || b.Bits != 0)
	case "<<", ">>":
		return e.shift(at, a, b)
	}
	a, b = common2(a, b)
	switch at.text {
	case "|":
		a.Bits |= b.Bits
	case "^":
		a.Bits ^= b.Bits
	case "&":
		a.Bits &= b.Bits
	case "+":
		a.Bits += b.Bits
	case "-":
		a.Bits -= b.Bits
	case "*":
		a.Bits *= b.Bits
	case "/", "%":
		a.Bits = e.divide(at, a, b)
	default:
		return e.truth(compare(at.text, a, b))
	}
	return a.cut()
}

// compare compares values of one type.
func compare(op string, a, b Value) bool {
	less := a.Bits < b.Bits
	if !a.Unsigned {
		less = int64(a.Bits) < int64(b.Bits)
	}
	same := a.Bits == b.Bits
	switch op {
	case "==":
		return same
	case "!=":
		return !same
	case "<":
		return less
	case "<=":
		return less || same
	case ">":
		return !less && !same
	}
	return !less // >=
}

func (e *evaluator) divide(at token, a, b Value) uint64 {
	switch {
	case b.Bits == 0:
		if e.dead == 0 {
			e.stop(at, "this divides by 0: make the divisor another one")
		}
		return 0
	case a.Unsigned && at.text == "/":
		return a.Bits / b.Bits
	case a.Unsigned:
		return a.Bits % b.Bits
	case at.text == "/":
		return uint64(int64(a.Bits) / int64(b.Bits)) // undefined in C; Go wraps around
	}
	return uint64(int64(a.Bits) % int64(b.Bits))
}

func (e *evaluator) shift(at token, a, by Value) Value {
	if by.Negative() || by.Bits >= uint64(a.Size)*8 {
		if e.dead == 0 {
			e.stop(at, "this shifts %d bits by %v: shift by less, or a wider number (1UL)", a.Size*8, by)
		}
		return a
	}
	switch {
	case at.text == "<<":
		a.Bits <<= by.Bits
	case a.Unsigned:
		a.Bits >>= by.Bits
	default:
		a.Bits = uint64(int64(a.Bits) >> by.Bits)
	}
	return a.cut()
}

// unary reads an operand with the operators before it.
func (e *evaluator) unary() Value {
	if !e.enter() {
		return e.int()
	}
	defer e.leave()
	at := e.tok
	switch {
	case e.take("+"):
		return e.unary()
	case e.take("-"):
		v := e.unary()
		v.Bits = -v.Bits
		return v.cut()
	case e.take("~"):
		v := e.unary()
		v.Bits = ^v.Bits
		return v.cut()
	case e.take("!"):
		return e.truth(e.unary().Bits == 0)
	case e.take("__extension__"):
		return e.unary()
	case at.kind == isWord && isSizeof(at.text) && !e.condition:
		return e.sizeof(at)
	case e.take("("):
		if !e.condition && e.beginsType(&e.tok) {
			return e.cast(at)
		}
		v := e.expression()
		e.want(")", "what is in parentheses")
		return v
	}
	return e.operand()
}

// operand reads a number, a character, or a name that stands for a number.
func (e *evaluator) operand() Value {
	at := e.tok
	switch at.kind {
	case isNumber:
		e.next()
		return e.number(at)
	case isChar:
		e.next()
		return e.character(at)
	case isWord:
		e.next()
		return e.name(at)
	case isEnd, isEOL:
		e.stop(at, "a number is wanted here, before %v: write one", &at)
	default:
		e.stop(at, "a number is wanted here, not %v: write one", &at)
	}
	return e.int()
}

func (e *evaluator) name(at token) Value {
	if e.condition {
		return e.int() // as in C
	}
	if v, ok := e.values[at.text]; ok {
		return v
	}
	if e.opts.Constant != nil {
		if n, ok := e.opts.Constant(at.text); ok {
			v := Value{Bits: uint64(n), Size: 8}
			if e.fits(v) {
				v.Size = 4
			}
			return v
		}
	}
	if e.dead == 0 {
		e.stop(at, "unknown constant %v: enumerate or define it before", &at)
	}
	return e.int()
}

func isSizeof(name string) bool {
	switch name {
	case "sizeof", "_Alignof", "alignof", "__alignof__", "__alignof":
		return true
	}
	return false
}

// sizeof reads a type and returns its size or alignment.
func (e *evaluator) sizeof(at token) Value {
	v := Value{Size: 8, Unsigned: true}
	e.next()
	if !e.tok.is("(") || !e.beginsType(e.peek()) {
		e.stop(at, "%s wants a type: write %[1]s(TYPE)", at.text)
		return v
	}
	e.next()
	t := e.complete(e.typeName(), at)
	e.want(")", "the type")
	if e.err != nil {
		return v
	}
	i := e.infoOf(t)
	if v.Bits = i.size; at.text != "sizeof" {
		v.Bits = i.align
	}
	return v
}

// cast reads (TYPE)VALUE.
func (e *evaluator) cast(at token) Value {
	t := e.typeName()
	e.want(")", "the type")
	v := e.unary()
	if e.err != nil {
		return v
	}
	size, unsigned, truth := uint32(0), false, false
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		size, unsigned, truth = t.Size, !ctype.Signed(t), t.Encoding == btf.Bool
	case *btf.Enum:
		size, unsigned = t.Size, !ctype.Signed(t)
	}
	if truth {
		return e.truth(v.Bits != 0)
	}
	shift := 64 - size*8
	switch {
	case size == 0 || size > 8:
		e.stop(at, "a constant is cast to a type that is not an integer of up to 64 bits: cast it to one")
	case unsigned:
		v.Bits = v.Bits << shift >> shift
	default:
		v.Bits = uint64(int64(v.Bits) << shift >> shift)
	}
	return Value{Bits: v.Bits, Size: int(max(size, 4)), Unsigned: unsigned && size >= 4}
}

// number parses a literal. Its type is the first of int and long that holds it; for literals
// that are not decimal, the unsigned types too.
func (e *evaluator) number(at token) Value {
	digits := strings.TrimRight(at.text, "uUlL")
	suffix := strings.ToLower(at.text[len(digits):])
	bits, err := parseDigits(digits)
	unsigned, long := strings.Contains(suffix, "u"), strings.Contains(suffix, "l")
	switch strings.Replace(suffix, "u", "", 1) {
	case "", "l", "ll":
	default:
		err = strconv.ErrSyntax
	}
	if err != nil {
		e.stop(at, "%v is not an integer of up to 64 bits: write one", &at)
		return e.int()
	}
	decimal := digits[0] != '0'
	v := Value{Bits: bits, Size: 4, Unsigned: unsigned}
	if long || e.condition || bits > math.MaxUint32 || bits > math.MaxInt32 && !unsigned && decimal {
		v.Size = 8
	}
	if v.Size == 4 && bits > math.MaxInt32 || bits > math.MaxInt64 {
		v.Unsigned = true
	}
	return v
}

func parseDigits(s string) (uint64, error) {
	switch {
	case len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X"):
		return strconv.ParseUint(s[2:], 16, 64)
	case len(s) > 2 && (s[:2] == "0b" || s[:2] == "0B"):
		return strconv.ParseUint(s[2:], 2, 64)
	case len(s) > 1 && s[0] == '0':
		return strconv.ParseUint(s[1:], 8, 64)
	}
	return strconv.ParseUint(s, 10, 64)
}
