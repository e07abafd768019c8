package syntax

// paren parses parentheses: an empty tuple, a record, a cast, a tuple or a group.
func (p *parser) paren() Expr {
	start := p.pos
	p.pos++
	p.layout()
	if p.peek(0) == ')' {
		p.pos++
		return &Tuple{Loc: p.since(start)}
	}
	if r := p.record(start); r != nil {
		return r
	}
	if c := p.cast(start); c != nil {
		return c
	}
	first := p.expression()
	if !p.match(',') {
		p.expect(')')
		return first
	}
	t := &Tuple{Elems: []Expr{first}}
	for more := true; more; more = p.match(',') {
		p.layout()
		if p.peek(0) == ')' {
			break
		}
		t.Elems = append(t.Elems, p.expression())
	}
	p.expect(')')
	t.Loc = p.since(start)
	return t
}

// record parses (name=value, …) after its parenthesis. It returns nil if it is not a record.
func (p *parser) record(start int) Expr {
	at := p.word(p.pos)
	eq := p.skip(at)
	if !letter(p.peek(0)) || p.char(eq) != '=' || p.char(eq+1) == '=' || grammarBuiltin(p.keyword()) {
		return nil
	}
	r, seen := &Record{}, map[string]bool{}
	for more := true; more; more = p.match(',') {
		p.layout()
		at := p.pos
		name := p.identifier("expected identifier")
		if name == "" {
			p.skipParen()
			break
		}
		p.expect('=')
		x := p.expression()
		if seen[name] {
			p.failAt(at, p.pos, "Named argument list already contains name: "+name)
		}
		seen[name] = true
		r.Elems = append(r.Elems, &NamedArg{p.since(at), name, x})
	}
	p.expect(')')
	r.Loc = p.since(start)
	return r
}

// skipParen skips to the parenthesis that closes the one already passed.
func (p *parser) skipParen() {
	for depth := 1; !p.end(); p.pos++ {
		switch p.text[p.pos] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return
		}
	}
}

// cast parses (type) x after its parenthesis. It returns nil if it is not a cast.
func (p *parser) cast(start int) Expr {
	at := p.pos
	if !letter(p.peek(0)) || grammarBuiltin(p.keyword()) {
		return nil
	}
	var t *TypeOf
	if p.nextWord("typeof") {
		t = p.annotation(false)
	} else if named := p.typ(false); named != nil {
		t = &TypeOf{p.since(at), named}
	}
	if t != nil && p.match(')') {
		p.layout()
		if p.beginsExpr() {
			l := p.since(start)
			x := p.unary()
			return &Cast{l, t, x}
		}
	}
	p.pos = at
	return nil
}

// beginsExpr reports whether an expression can begin here.
func (p *parser) beginsExpr() bool {
	switch c := p.peek(0); c {
	case '$', '@', '"', '(', '-', '!', '~', '*', '&':
		return true
	default:
		return digit(c) || letter(c)
	}
}
