package syntax

import "strings"

// block reads { … }, nil after an error. The last expression is its value where valued is
// set, a statement elsewhere.
func (p *parser) block(valued bool) *Block {
	if !p.enter() {
		p.leave()
		return nil
	}
	defer p.leave()
	start := p.pos // with the spaces before it, as bpftrace has it
	if !p.expect('{') {
		return nil
	}
	b := &Block{}
	p.layout()
	for p.peek(0) != '}' && !p.end() && !p.failed() {
		before := p.pos
		p.statement(b)
		if p.pos == before {
			p.fail("unexpected input in block")
			p.advance(1)
		}
		p.layout()
	}
	if p.failed() || !p.expect('}') {
		return nil
	}
	b.Loc = p.since(start)
	if b.Value != nil && !valued {
		dropValue(b.Value)
		b.Stmts = append(b.Stmts, &ExprStmt{b.Loc, b.Value})
		b.Value = nil
	}
	if b.Value == nil {
		b.Value = &None{b.Loc}
	}
	return b
}

// body reads the block of a loop, an empty one after an error.
func (p *parser) body() *Block {
	if b := p.block(false); b != nil {
		return b
	}
	return &Block{Loc: p.since(p.pos), Value: p.none()}
}

// dropValue makes the values of a block, and of the branches of an if, statements: nobody
// wants them.
func dropValue(x Expr) {
	switch x := x.(type) {
	case *Block:
		for _, s := range x.Stmts {
			if s, ok := s.(*ExprStmt); ok {
				dropValue(s.X)
			}
		}
		if _, none := x.Value.(*None); !none {
			dropValue(x.Value)
			x.Stmts = append(x.Stmts, &ExprStmt{x.Loc, x.Value})
			x.Value = &None{x.Loc}
		}
	case *If:
		if x.Then != nil {
			dropValue(x.Then)
		}
		dropValue(x.Else)
	}
}

// statement reads one statement of a block, or its value.
func (p *parser) statement(b *Block) {
	start := p.pos
	add := func(s Stmt) { b.Stmts = append(b.Stmts, s) }
	switch word := p.keyword(); word {
	case "import":
		if i := p.importPath(); i != nil {
			add(i)
		}
	case "while", "unroll":
		add(p.while(word))
	case "for":
		add(p.forLoop())
	case "break", "continue", "return":
		add(p.jump(word))
	case "let":
		add(p.let())
	default:
		next := p.skip(p.pos + 1)
		switch c := p.peek(0); {
		case c == '_' && p.char(next) == '=' && p.char(next+1) != '=':
			p.pos = next + 1
			x := p.expression()
			add(&Discard{p.since(start), x})
			p.endStatement()
		case c == '$' || c == '@':
			p.sigil(b)
		default:
			p.exprStatement(b)
		}
	}
}

// exprStatement reads an expression that is a statement or the block's value.
func (p *parser) exprStatement(b *Block) {
	start := p.pos
	x := p.expression()
	p.layout()
	switch p.peek(0) {
	case ';':
		p.pos++
	case '}':
		b.Value = x
		return
	default:
		if _, isIf := x.(*If); !isIf {
			if _, isBlock := x.(*Block); !isBlock {
				p.fail("expected ';'")
			}
		}
	}
	b.Stmts = append(b.Stmts, &ExprStmt{p.since(start), x})
}

// sigil reads what begins with a variable or a map: an assignment, a statement, or the
// block's value.
func (p *parser) sigil(b *Block) {
	errs := len(p.errs)
	s := p.assignment()
	p.layout()
	x, ok := s.(*ExprStmt)
	switch {
	case !ok || len(p.errs) > errs:
	case p.peek(0) == ';':
		p.pos++
	case p.peek(0) == '}':
		b.Value = x.X
		return
	default:
		p.fail("expected ';'")
	}
	b.Stmts = append(b.Stmts, s)
}

// condition reads what follows if, while and unroll: in parentheses any expression,
// else one that ends before a brace.
func (p *parser) condition() Expr {
	p.layout()
	if p.peek(0) != '(' {
		return p.unary()
	}
	p.pos++
	x := p.expression()
	p.expect(')')
	return x
}

func (p *parser) while(word string) Stmt {
	start := p.pos
	p.matchWord(word)
	cond := p.condition()
	body := p.body()
	if word == "while" {
		return &While{p.since(start), cond, body}
	}
	return &Unroll{p.since(start), cond, body}
}

func (p *parser) forLoop() Stmt {
	start := p.pos
	p.matchWord("for")
	open := p.match('(')
	f := &For{}
	giveUp := func() Stmt {
		p.skipBlock()
		n := p.none()
		return &ExprStmt{n.Loc, n}
	}
	p.layout()
	if p.peek(0) != '$' {
		p.fail("expected variable in for loop")
		return giveUp()
	}
	f.Var = p.variable()
	if !p.expect(':') {
		return giveUp()
	}
	p.layout()
	first := p.primary()
	p.layout()
	if p.peek(0) == '.' && p.peek(1) == '.' {
		p.advance(2)
		end := p.primary()
		f.Over = &Range{p.since(start), first, end}
	}
	if open && !p.expect(')') {
		return giveUp()
	}
	if f.Over == nil {
		m, ok := first.(*Map)
		if !ok {
			p.fail("expected map or range in for loop")
			return giveUp()
		}
		f.Over = m
	}
	f.Body = p.body()
	f.Loc = p.since(start)
	return f
}

// skipBlock passes the next block, unless one ends before it.
func (p *parser) skipBlock() {
	i := strings.IndexAny(p.text[p.pos:], "{}")
	if i < 0 {
		p.pos = len(p.text)
		return
	}
	p.pos += i
	if p.text[p.pos] == '{' {
		p.pos, _ = p.balanced(p.pos, '{', '}')
	}
}

func (p *parser) jump(word string) Stmt {
	start := p.pos
	p.matchWord(word)
	j := &Jump{Keyword: word}
	p.layout()
	if c := p.peek(0); word == "return" && c != ';' && c != '}' {
		j.Value = p.expression()
	}
	p.endStatement()
	j.Loc = p.since(start)
	return j
}

// endStatement passes the semicolon, which may be left out before a brace.
func (p *parser) endStatement() {
	p.layout()
	if p.peek(0) != '}' {
		p.expect(';')
	}
}

func (p *parser) let() Stmt {
	start := p.pos
	p.matchWord("let")
	p.layout()
	if p.peek(0) != '$' {
		p.fail("expected variable after 'let'")
		n := p.none()
		return &ExprStmt{n.Loc, n}
	}
	d := &VarDecl{Var: p.variable()}
	d.Loc = p.since(start)
	p.layout()
	if p.peek(0) == ':' {
		p.pos++
		d.Type = p.annotation(true)
		p.layout()
	}
	if p.peek(0) != '=' {
		p.endStatement()
		return d
	}
	p.pos++
	x := p.expression()
	a := &Assign{Loc: p.since(start), Target: d, Value: x}
	p.endStatement()
	return a
}

func (p *parser) variable() *Variable {
	start := p.pos
	name := p.variableName()
	return &Variable{p.since(start), name}
}

// assignment reads a statement that begins with a variable or a map.
func (p *parser) assignment() Stmt {
	start := p.pos
	var target Expr
	switch next := p.peek(1); {
	case p.peek(0) == '@':
		target = p.mapOrElement()
	case digit(next) || next == '#':
		x := p.expression()
		return &ExprStmt{p.since(start), x}
	default:
		target = p.variable()
	}
	p.layout()
	if p.peek(0) == '=' && p.peek(1) != '=' {
		p.pos++
		a := &Assign{Target: target, Value: p.expression()}
		a.compound()
		return p.assigned(start, a)
	}
	at := p.pos
	if op := p.compoundOp(); op != "" {
		p.pos += len(op) + 1
		a := &Assign{Target: target, Op: op, Value: p.expression()}
		a.OpLoc = p.since(at)
		return p.assigned(start, a)
	}
	if op := p.stepOp(); op != "" {
		p.pos += 2
		l := p.since(start)
		return &ExprStmt{l, &Unary{l, op, true, target}}
	}
	x := p.postfix(target)
	p.layout()
	if p.peek(0) == '=' && p.peek(1) != '=' {
		return p.badTarget(start, x)
	}
	x = p.binary(0, x)
	return &ExprStmt{p.since(start), x}
}

func (p *parser) assigned(start int, a *Assign) Stmt {
	a.Loc = p.since(start)
	p.endStatement()
	return a
}

// compound makes x = x + y the same as x += y.
func (a *Assign) compound() {
	if b, ok := a.Value.(*Binary); ok && compoundable(b.Op) && Equal(a.Target, b.X) {
		a.Op, a.OpLoc, a.Value = b.Op, b.Loc, b.Y
	}
}

// compoundable reports whether an operator can be one of a compound assignment.
func compoundable(op string) bool {
	switch op {
	case "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>":
		return true
	}
	return false
}

// badTarget reads an assignment to what cannot be assigned to.
func (p *parser) badTarget(start int, target Expr) Stmt {
	p.pos++
	p.expression()
	msg := "invalid assignment target"
	switch target.(type) {
	case *Element, *Field:
		msg = "Tuples and records are immutable once created. Consider creating a new value " +
			"and assigning it instead."
		p.failAt(start, p.pos, msg)
	default:
		end := p.pos
		p.match(';')
		p.failAt(start, end, msg)
	}
	n := p.none()
	return &ExprStmt{n.Loc, n}
}

// compoundOp is the operator of += and the like that is here, without "=", or "".
func (p *parser) compoundOp() string {
	c, next := p.peek(0), p.peek(1)
	switch {
	case next == '=' && strings.IndexByte("+-*/%&|^", c) >= 0:
		return p.text[p.pos : p.pos+1]
	case (c == '<' || c == '>') && next == c && p.peek(2) == '=':
		return p.text[p.pos : p.pos+2]
	}
	return ""
}

// stepOp is the ++ or -- that is here, or "".
func (p *parser) stepOp() string {
	switch c := p.peek(0); {
	case c != p.peek(1):
	case c == '+':
		return "++"
	case c == '-':
		return "--"
	}
	return ""
}
