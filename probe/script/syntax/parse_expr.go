package syntax

import (
	"math"
	"strconv"
)

// expression parses an expression. The ternary is the operator that binds least.
func (p *parser) expression() Expr {
	if !p.enter() {
		p.leave()
		return p.none()
	}
	defer p.leave()
	x := p.binary(0, p.unary())
	at := p.pos
	p.layout()
	if p.peek(0) != '?' {
		p.pos = at
		return x
	}
	p.pos++
	p.layout()
	n := &If{Cond: x}
	if p.peek(0) != ':' {
		n.Then = p.expression()
	}
	p.expect(':')
	n.Else = p.expression()
	n.Loc = p.since(int(x.At().Start))
	return n
}

// binaryOp returns the operator that is next and its binding strength, or "". A slash before a
// brace ends a predicate. The operators of assignments such as += are not part of expressions.
func (p *parser) binaryOp() (op string, binds int) {
	c, next := p.peek(0), p.peek(1)
	switch c {
	case '|', '&':
		if next == c {
			return p.text[p.pos : p.pos+2], ifElse(c == '|', 1, 2)
		}
		binds = ifElse(c == '|', 3, 5)
	case '=', '!':
		if next == '=' {
			return p.text[p.pos : p.pos+2], 6
		}
		return "", 0
	case '<', '>':
		switch {
		case next == '=':
			return p.text[p.pos : p.pos+2], 7
		case next == c && p.peek(2) == '=':
			return "", 0
		case next == c:
			return p.text[p.pos : p.pos+2], 8
		}
		return p.text[p.pos : p.pos+1], 7
	case '^':
		binds = 4
	case '+', '-':
		if next == c {
			return "", 0
		}
		binds = 9
	case '*', '/', '%':
		if c == '/' && p.char(p.skip(p.pos+1)) == '{' {
			return "", 0
		}
		binds = 10
	}
	if binds == 0 || next == '=' {
		return "", 0
	}
	return p.text[p.pos : p.pos+1], binds
}

func ifElse(cond bool, then, otherwise int) int {
	if cond {
		return then
	}
	return otherwise
}

// binary parses the operators after x whose binding strength is at least least.
func (p *parser) binary(least int, x Expr) Expr {
	for {
		at := p.pos
		p.layout()
		op, binds := p.binaryOp()
		if op == "" || binds < least {
			p.pos = at
			return x
		}
		p.pos += len(op)
		y := p.binary(binds+1, p.unary())
		x = &Binary{p.since(int(x.At().Start)), x, op, y}
	}
}

func (p *parser) unary() Expr {
	if !p.enter() {
		p.leave()
		return p.none()
	}
	defer p.leave()
	p.layout()
	start := p.pos
	if op := p.stepOp(); op != "" {
		p.pos += 2
		x := p.unary()
		if !assignable(x) {
			p.failAt(int(x.At().Start), int(x.At().End), stepMsg)
		}
		return &Unary{p.since(start), op, false, x}
	}
	switch c := p.peek(0); {
	case c == '&':
		return p.address()
	case c == '*' || c == '~' || c == '-' || c == '!' && p.peek(1) != '=':
		p.pos++
		x := p.unary()
		return &Unary{p.since(start), p.text[start : start+1], false, x}
	}
	return p.postfix(p.primary())
}

const stepMsg = "increment/decrement requires a variable or map"

func assignable(x Expr) bool {
	switch x.(type) {
	case *Variable, *Map, *MapAccess:
		return true
	}
	return false
}

func (p *parser) address() Expr {
	start := p.pos
	p.pos++
	p.layout()
	at := p.pos
	switch p.peek(0) {
	case '$':
		v := p.variable()
		return &Addr{p.since(start), v}
	case '@':
		name := p.mapName()
		return &Addr{p.since(start), &Map{p.since(at), name}}
	}
	p.fail("address-of operator (&) can only be used on a map or variable")
	x := p.unary()
	return &Unary{p.since(start), "&", false, x}
}

// postfix parses .field, ->field, .0, [index], ++ and -- after x.
func (p *parser) postfix(x Expr) Expr {
	for {
		at := p.pos
		p.layout()
		start := int(x.At().Start)
		c, next := p.peek(0), p.peek(1)
		switch {
		case c == '.' && next == '.':
			return x
		case c == '.' || c == '-' && next == '>':
			if y := p.field(x, start); y != nil {
				x = y
				continue
			}
			return x
		case c == '[':
			p.pos++
			i := p.expression()
			p.expect(']')
			x = &Index{p.since(start), x, i}
		case p.stepOp() != "":
			op := p.stepOp()
			p.pos += 2
			if !assignable(x) {
				p.failAt(p.pos-2, p.pos, stepMsg)
				return x
			}
			x = &Unary{p.since(start), op, true, x}
		default:
			p.pos = at
			return x
		}
	}
}

// field parses .name, .0 or ->name. It returns nil after an error.
func (p *parser) field(x Expr, start int) Expr {
	dot := "->"
	if p.peek(0) == '.' {
		dot = "."
	}
	p.pos += len(dot)
	p.layout()
	if dot == "." && digit(p.peek(0)) {
		n, err := ParseInteger(p.number())
		if err != nil {
			n = 0
		}
		return &Element{p.since(start), x, n}
	}
	name := p.identifier("expected field name after '" + dot + "'")
	if name == "" {
		return nil
	}
	return &Field{p.since(start), x, name}
}

// primary parses an operand.
func (p *parser) primary() Expr {
	p.layout()
	start := p.pos
	switch c := p.peek(0); {
	case letter(c):
		return p.named()
	case c == '(':
		return p.paren()
	case c == '{':
		if b := p.block(true); b != nil {
			return b
		}
		return p.none()
	case c == '@':
		return p.mapOrElement()
	case c == '$':
		return p.dollar()
	case digit(c):
		return p.integer()
	case c == '"':
		s := p.str()
		return &String{p.since(start), s}
	}
	p.fail("expected expression")
	return p.none()
}

// named parses an operand that begins with a word.
func (p *parser) named() Expr {
	start := p.pos
	switch p.keyword() {
	case "if":
		return p.ifExpr()
	case "sizeof":
		p.matchWord("sizeof")
		p.expect('(')
		p.layout()
		x := p.typeOrExpr(")")
		p.expect(')')
		return &Sizeof{p.since(start), x}
	case "offsetof":
		return p.offsetof()
	case "typeinfo":
		p.matchWord("typeinfo")
		p.expect('(')
		t := p.annotation(false)
		p.expect(')')
		return &TypeInfo{p.since(start), t}
	case "comptime":
		p.matchWord("comptime")
		x := p.unary()
		return &Comptime{p.since(start), x}
	}
	p.pos = p.word(p.pos)
	name, l := p.text[start:p.pos], p.since(start)
	if name == "true" || name == "false" {
		return &Boolean{l, name == "true"}
	}
	p.layout()
	switch {
	case p.peek(0) == '(':
		return p.call(name, start)
	case grammarBuiltin(name):
		return &Builtin{l, name}
	}
	return &Identifier{l, name}
}

func (p *parser) ifExpr() Expr {
	start := p.pos
	p.matchWord("if")
	n := &If{Cond: p.condition(), Else: nil}
	n.Then = orNone(p, p.block(true))
	p.layout()
	switch {
	case !p.matchWord("else"):
		n.Else = p.none()
	default:
		p.layout()
		switch {
		case p.peek(0) == '{':
			n.Else = orNone(p, p.block(true))
		case p.nextWord("if") && p.enter():
			n.Else = p.primary()
			p.leave()
		default:
			p.fail("expected '{' or 'if' after 'else'")
			n.Else = p.none()
		}
	}
	n.Loc = p.since(start)
	return n
}

func orNone(p *parser, b *Block) Expr {
	if b == nil {
		return p.none()
	}
	return b
}

func (p *parser) offsetof() Expr {
	start := p.pos
	p.matchWord("offsetof")
	p.expect('(')
	p.layout()
	n := &Offsetof{}
	switch p.keyword() {
	case "struct", "union", "enum":
		n.X = p.none()
		if t := p.typ(true); t != nil {
			n.X = t
		}
	default:
		n.X = p.expression()
	}
	p.expect(',')
	n.Fields = append(n.Fields, p.identifier(""))
	for p.match('.') {
		n.Fields = append(n.Fields, p.identifier(""))
	}
	p.expect(')')
	n.Loc = p.since(start)
	return n
}

func (p *parser) call(name string, start int) Expr {
	p.expect('(')
	c := &Call{Name: name}
	p.layout()
	if p.peek(0) != ')' {
		for more := true; more; more = p.match(',') {
			c.Args = append(c.Args, p.expression())
		}
	}
	p.expect(')')
	c.Loc = p.since(start)
	return c
}

func (p *parser) mapOrElement() Expr {
	start := p.pos
	name := p.mapName()
	m := &Map{p.since(start), name}
	p.layout()
	if p.peek(0) != '[' {
		return m
	}
	p.pos++
	var keys []Expr
	for more := true; more; more = p.match(',') {
		keys = append(keys, p.expression())
	}
	p.expect(']')
	l := p.since(start)
	if len(keys) == 1 {
		return &MapAccess{l, m, keys[0]}
	}
	return &MapAccess{l, m, &Tuple{l, keys}}
}

// dollar parses $name, $1 or $#.
func (p *parser) dollar() Expr {
	start := p.pos
	switch {
	case p.peek(1) == '#':
		p.advance(2)
		return &ParamCount{p.since(start)}
	case !digit(p.peek(1)):
		return p.variable()
	}
	p.pos++
	for digit(p.peek(0)) {
		p.pos++
	}
	n, err := strconv.ParseInt(p.text[start+1:p.pos], 10, 64)
	if err != nil {
		n = 0
	}
	if n < 1 {
		p.failAt(start, p.pos, "param "+p.text[start:p.pos]+" is out of integer range [1, "+
			strconv.FormatInt(math.MaxInt64, 10)+"]")
	}
	return &Param{p.since(start), n}
}

func (p *parser) integer() Expr {
	start := p.pos
	text := p.number()
	n, err := ParseInteger(text)
	if err != nil {
		p.failAt(start, p.pos, err.Error())
		return &Integer{Loc: p.since(start)}
	}
	return &Integer{Loc: p.since(start), Value: n, Text: text}
}
