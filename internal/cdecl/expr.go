package cdecl

import (
	"math"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Value is what a constant expression comes to, and the type it has.
type Value struct {
	Bits     uint64 // in two's complement, extended to 64 bits
	Size     int    // 4 or 8 bytes
	Unsigned bool
}

// Negative reports whether the value is below 0.
func (v Value) Negative() bool { return !v.Unsigned && int64(v.Bits) < 0 }

// String is the value in decimal.
func (v Value) String() string {
	if v.Unsigned {
		return strconv.FormatUint(v.Bits, 10)
	}
	return strconv.FormatInt(int64(v.Bits), 10)
}

// cut wraps the bits to the value's type.
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

// precedences are C's, of operators with two operands.
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

// expression reads a constant expression, without commas.
func (p *parser) expression() Value {
	if !p.enter() {
		return Value{Size: 4}
	}
	defer p.leave()
	c := p.binary(p.unary(), 1)
	if !p.take("?") {
		return c
	}
	yes := c // GNU C: a ?: b
	if !p.tok.is(":") {
		yes = p.unless(c.Bits == 0, p.expression)
	}
	p.want(":", "what holds otherwise")
	no := p.unless(c.Bits != 0, p.expression)
	yes, no = common2(yes, no)
	if c.Bits != 0 {
		return yes
	}
	return no
}

// unless reads a part that is not evaluated if dead.
func (p *parser) unless(dead bool, read func() Value) Value {
	if dead {
		p.dead++
		defer func() { p.dead-- }()
	}
	return read()
}

// binary reads the operators of at least that precedence which follow left.
func (p *parser) binary(left Value, least int) Value {
	for p.err == nil {
		at := p.tok
		prec := precedence(at.text)
		if at.kind != isMark || prec < least {
			return left
		}
		p.next()
		dead := at.text == "&&" && left.Bits == 0 || at.text == "||" && left.Bits != 0
		right := p.unless(dead, func() Value { return p.binary(p.unary(), prec+1) })
		left = p.operate(at, left, right)
	}
	return left
}

// common2 brings two operands to one type.
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

// truth is the value of a condition.
func (p *parser) truth(b bool) Value {
	v := p.int()
	if b {
		v.Bits = 1
	}
	return v
}

// int is an int 0; in the condition of an #if all are intmax_t.
func (p *parser) int() Value {
	if p.condition {
		return Value{Size: 8}
	}
	return Value{Size: 4}
}

func (p *parser) operate(at token, a, b Value) Value {
	switch at.text {
	case "&&":
		return p.truth(a.Bits != 0 && b.Bits != 0)
	case "||":
		return p.truth(a.Bits != 0 || b.Bits != 0)
	case "<<", ">>":
		return p.shift(at, a, b)
	}
	a, b = common2(a, b)
	v := a
	less := a.Bits < b.Bits
	if !a.Unsigned {
		less = int64(a.Bits) < int64(b.Bits)
	}
	switch at.text {
	case "==":
		return p.truth(a.Bits == b.Bits)
	case "!=":
		return p.truth(a.Bits != b.Bits)
	case "<":
		return p.truth(less)
	case ">=":
		return p.truth(!less)
	case ">":
		return p.truth(!less && a.Bits != b.Bits)
	case "<=":
		return p.truth(less || a.Bits == b.Bits)
	case "|":
		v.Bits = a.Bits | b.Bits
	case "^":
		v.Bits = a.Bits ^ b.Bits
	case "&":
		v.Bits = a.Bits & b.Bits
	case "+":
		v.Bits = a.Bits + b.Bits
	case "-":
		v.Bits = a.Bits - b.Bits
	case "*":
		v.Bits = a.Bits * b.Bits
	case "/", "%":
		v.Bits = p.divide(at, a, b)
	}
	return v.cut()
}

func (p *parser) divide(at token, a, b Value) uint64 {
	switch {
	case b.Bits == 0:
		if p.dead == 0 {
			p.stop(at, "this divides by 0: make the divisor another one")
		}
		return 0
	case a.Unsigned && at.text == "/":
		return a.Bits / b.Bits
	case a.Unsigned:
		return a.Bits % b.Bits
	case at.text == "/":
		return uint64(int64(a.Bits) / int64(b.Bits)) // Go wraps where C is undefined
	}
	return uint64(int64(a.Bits) % int64(b.Bits))
}

func (p *parser) shift(at token, a, by Value) Value {
	if by.Negative() || by.Bits >= uint64(a.Size)*8 {
		if p.dead == 0 {
			p.stop(at, "this shifts %d bits by %v: shift by less, or a wider number (1UL)", a.Size*8, by)
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
func (p *parser) unary() Value {
	if !p.enter() {
		return p.int()
	}
	defer p.leave()
	at := p.tok
	switch {
	case p.take("+"):
		return p.unary()
	case p.take("-"):
		v := p.unary()
		v.Bits = -v.Bits
		return v.cut()
	case p.take("~"):
		v := p.unary()
		v.Bits = ^v.Bits
		return v.cut()
	case p.take("!"):
		return p.truth(p.unary().Bits == 0)
	case p.take("__extension__"):
		return p.unary()
	case at.kind == isWord && isSizeof(at.text) && !p.condition:
		return p.sizeof(at)
	case p.take("("):
		if !p.condition && p.beginsType(&p.tok) {
			return p.cast(at)
		}
		v := p.expression()
		p.want(")", "what is in parentheses")
		return v
	}
	return p.operand()
}

// operand reads a number, a character, or a name that stands for a number.
func (p *parser) operand() Value {
	at := p.tok
	switch at.kind {
	case isNumber:
		p.next()
		return p.number(at)
	case isChar:
		p.next()
		return p.character(at)
	case isWord:
		p.next()
		return p.name(at)
	case isEnd, isEOL:
		p.stop(at, "a number is wanted here, before %v: write one", &at)
	default:
		p.stop(at, "a number is wanted here, not %v: write one", &at)
	}
	return p.int()
}

func (p *parser) name(at token) Value {
	if p.condition {
		return p.int() // as C has it
	}
	if v, ok := p.values[at.text]; ok {
		return v
	}
	if p.opts.Constant != nil {
		if n, ok := p.opts.Constant(at.text); ok {
			v := Value{Bits: uint64(n), Size: 8}
			if p.fits(v) {
				v.Size = 4
			}
			return v
		}
	}
	if p.dead == 0 {
		p.stop(at, "%v is no constant that is known: enumerate or define it before", &at)
	}
	return p.int()
}

func isSizeof(name string) bool {
	switch name {
	case "sizeof", "_Alignof", "alignof", "__alignof__", "__alignof":
		return true
	}
	return false
}

// sizeof reads the type whose size, or alignment, is wanted.
func (p *parser) sizeof(at token) Value {
	v := Value{Size: 8, Unsigned: true}
	p.next()
	if !p.tok.is("(") || !p.beginsType(p.peek()) {
		p.stop(at, "%s wants a type: write %[1]s(TYPE)", at.text)
		return v
	}
	p.next()
	t := p.complete(p.typeName(), at)
	p.want(")", "the type")
	if p.err != nil {
		return v
	}
	i := p.infoOf(t)
	if v.Bits = i.size; at.text != "sizeof" {
		v.Bits = i.align
	}
	return v
}

// cast reads (TYPE)VALUE.
func (p *parser) cast(at token) Value {
	t := p.typeName()
	p.want(")", "the type")
	v := p.unary()
	if p.err != nil {
		return v
	}
	size, unsigned, truth := uint32(0), false, false
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		size, unsigned, truth = t.Size, t.Encoding != btf.Signed, t.Encoding == btf.Bool
	case *btf.Enum:
		size, unsigned = t.Size, !t.Signed
	}
	if truth {
		return p.truth(v.Bits != 0)
	}
	shift := 64 - size*8
	switch {
	case size == 0 || size > 8:
		p.stop(at, "a constant is cast to what is no integer of up to 64 bits: cast it to one")
	case unsigned:
		v.Bits = v.Bits << shift >> shift
	default:
		v.Bits = uint64(int64(v.Bits) << shift >> shift)
	}
	return Value{Bits: v.Bits, Size: int(max(size, 4)), Unsigned: unsigned && size >= 4}
}

// number reads a literal: the type is the first of int, long, and for those that are
// not decimal of their unsigned kin, that holds it.
func (p *parser) number(at token) Value {
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
		p.stop(at, "%v is no integer of up to 64 bits: write one", &at)
		return p.int()
	}
	decimal := digits[0] != '0'
	v := Value{Bits: bits, Size: 4, Unsigned: unsigned}
	if long || p.condition || bits > math.MaxUint32 || bits > math.MaxInt32 && !unsigned && decimal {
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
