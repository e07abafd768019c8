package syntax

import "strings"

// block parses { … }. It returns nil after an error. If valued is set, the last expression is
// the block's value, else a statement.
func (p *parser) block(valued bool) *Block {
	if !p.enter() {
		p.leave()
		return nil
	}
	defer p.leave()
	start := p.pos // the spaces before it are included, as in bpftrace
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

// body parses the block of a loop. It returns an empty block after an error.
func (p *parser) body() *Block {
	if b := p.block(false); b != nil {
		return b
	}
	return &Block{Loc: p.since(p.pos), Value: p.none()}
}

// dropValue turns the values of a block, and of the branches of an if, into statements, since
// they are not used.
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

// statement parses one statement of a block, or the block's value.
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

// exprStatement parses an expression that is a statement or the block's value.
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

// sigil parses an assignment, a statement or a block's value that begins with a variable or a
// map.
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

// condition parses the condition of if, while and unroll: any expression in parentheses, or an
// expression that ends before a brace.
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

// skipBlock skips the next block, unless the enclosing block ends before it.
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

// endStatement skips the semicolon, which is optional before a closing brace.
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

// assignment parses a statement that begins with a variable or a map.
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

// compound converts x = x + y to the form of x += y.
func (a *Assign) compound() {
	if b, ok := a.Value.(*Binary); ok && compoundable(b.Op) && Equal(a.Target, b.X) {
		a.Op, a.OpLoc, a.Value = b.Op, b.Loc, b.Y
	}
}

// compoundable reports whether an operator has a compound assignment.
func compoundable(op string) bool {
	switch op {
	case "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>":
		return true
	}
	return false
}

// badTarget parses an assignment to an expression that cannot be assigned to, and reports it.
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

// compoundOp returns the operator of the compound assignment that is next, without "=", or "".
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

// stepOp returns the ++ or -- that is next, or "".
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
