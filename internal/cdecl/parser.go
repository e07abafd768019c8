package cdecl

import "github.com/cilium/ebpf/btf"

// parser parses declarations or an expression from a source of tokens. After an error it sees
// the end of the text, so that every loop ends.
type parser struct {
	*state
	src    source
	tok    token
	ahead  token
	peeked bool
	depth  int // current nesting
}

func newParser(s *state, src source) *parser {
	p := &parser{state: s, src: src}
	p.next()
	return p
}

// next moves to the next token.
func (p *parser) next() {
	if p.err != nil {
		p.tok, p.peeked = token{pos: p.tok.pos}, false
		return
	}
	if p.peeked {
		p.tok, p.peeked = p.ahead, false
		return
	}
	p.tok = p.src.next()
}

// peek returns the token after tok.
func (p *parser) peek() *token {
	if !p.peeked {
		p.ahead, p.peeked = p.src.next(), true
	}
	return &p.ahead
}

// stop records an error and ends the text.
func (p *parser) stop(at token, format string, args ...any) {
	p.fail(at, format, args...)
	p.next()
}

// take moves past a token if it is the current one.
func (p *parser) take(s string) bool {
	if !p.tok.is(s) {
		return false
	}
	p.next()
	return true
}

// want is take for a token that must be there.
func (p *parser) want(s, after string) {
	if !p.take(s) {
		p.stop(p.tok, "after %s comes %v, not %q: write one there", after, &p.tok, s)
	}
}

// enter bounds the nesting. Callers must call leave if it returns true.
func (p *parser) enter() bool {
	if p.depth++; p.depth > maxNesting {
		p.stop(p.tok, "more than %d things are in one another here: give the inner ones names of "+
			"their own", maxNesting)
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// declaration reads one top-level declaration.
func (p *parser) declaration() {
	if p.take(";") {
		return
	}
	if p.assertion() {
		return
	}
	begin := p.tok
	sp := p.specifiers(true)
	if p.err != nil {
		return
	}
	if p.tok.is(";") || sp.body && p.ends() {
		if sp.typedef {
			p.stop(begin, "this typedef has no name: write one before its end")
		}
		p.take(";")
		return
	}
	for p.err == nil {
		if p.declared(&sp) || !p.take(",") {
			break
		}
	}
}

// ends reports whether a new declaration follows a definition's }, because scripts omit the
// semicolon.
func (p *parser) ends() bool {
	switch p.tok.text {
	case "struct", "union", "enum", "typedef":
		return p.tok.kind == isWord
	}
	return p.tok.kind == isEnd
}

// declared reads one declarator of a declaration. It returns true if that ends the
// declaration.
func (p *parser) declared(sp *spec) (last bool) {
	d := p.declarator(sp.typ, named)
	at := d.attrs.merge(sp.attrs)
	if p.err != nil {
		return true
	}
	if sp.typedef {
		p.typedef(d, at)
	}
	switch {
	case p.take(";"):
		return true
	case p.tok.is("=") && !sp.typedef:
		return p.initial(d)
	case p.tok.is("{") && !sp.typedef:
		p.body(d)
		return true
	case p.tok.is(","):
		return false
	}
	p.stop(p.tok, "after the declaration of %s comes %v: end it by a semicolon", quote(d.name.text),
		&p.tok)
	return true
}

// body skips a function's body, or returns an error for it.
func (p *parser) body(d declarator) {
	_, function := d.typ.(*btf.FuncProto)
	switch {
	case !function:
		p.stop(p.tok, "after the declaration of %s comes %v: end it by a semicolon", quote(d.name.text),
			&p.tok)
	case !p.opts.SkipCode:
		p.stop(d.name, "function %s has a body, and only declarations are read here: take the body out",
			quote(d.name.text))
	default:
		p.skipped("function", d.name)
		p.code()
	}
}

// initial skips the initial value of a variable, or returns an error for it.
func (p *parser) initial(d declarator) (last bool) {
	if !p.opts.SkipCode {
		p.stop(d.name, "variable %s has an initial value, and only declarations are read here: take "+
			"it out", quote(d.name.text))
		return true
	}
	p.skipped("variable", d.name)
	for p.err == nil && p.tok.kind != isEnd {
		switch {
		case p.tok.is("{") || p.tok.is("(") || p.tok.is("["):
			p.code()
		case p.tok.is(","):
			return false
		case p.take(";"):
			return true
		default:
			p.next()
		}
	}
	p.stop(p.tok, "variable %s has an initial value without an end: end it by a semicolon",
		quote(d.name.text))
	return true
}

// code skips from a bracket to its closing one. Its contents are not expanded, because they
// may use macros with parameters.
func (p *parser) code() {
	begin := p.tok
	if p.peeked {
		p.stop(begin, "this can't be skipped: take it out") // no caller peeks beyond a bracket
		return
	}
	was := p.pp.raw
	p.pp.raw = true
	open := 0
	for p.err == nil && p.tok.kind != isEnd {
		switch {
		case p.tok.is("{") || p.tok.is("(") || p.tok.is("["):
			open++
		case p.tok.is("}") || p.tok.is(")") || p.tok.is("]"):
			open--
		}
		if open == 0 {
			p.pp.raw = was
			p.next()
			return
		}
		p.next()
	}
	p.stop(begin, "this %s is not closed: write what closes it", quote(begin.text))
}

// assertion checks a _Static_assert.
func (p *parser) assertion() bool {
	if !p.tok.is("_Static_assert") && !p.tok.is("static_assert") {
		return false
	}
	at := p.tok
	p.next()
	p.want("(", quote(at.text))
	v := p.expression()
	if p.take(",") {
		p.texts()
	}
	p.want(")", "what is asserted")
	p.take(";")
	if p.err == nil && v.Bits == 0 {
		p.stop(at, "what is asserted here is false: the layout is another one than the text expects")
	}
	return true
}
