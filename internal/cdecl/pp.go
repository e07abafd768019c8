package cdecl

import (
	"slices"
	"strings"
)

// source provides a parser's tokens.
type source interface{ next() token }

// slice is a source that ends with its tokens.
type slice struct {
	tokens []token
	end    token
}

func (s *slice) next() token {
	if len(s.tokens) == 0 {
		return s.end
	}
	t := s.tokens[0]
	s.tokens = s.tokens[1:]
	return t
}

type macro struct {
	name   string
	pos    Pos
	body   []token
	called bool // has parameters
	given  bool // defined by Options.Macro or this package, not by the text
	active bool // it is being expanded
}

// frame is a macro's body that is being read, in place of a token at position use.
type frame struct {
	m   *macro
	i   int
	use Pos
	own bool // the tokens keep their own positions
}

// cond is an open #if.
type cond struct {
	pos   Pos
	taken bool // one of its groups was read
	last  bool // #else was seen
}

// preprocessor reads texts, processes their directives, and expands macros without parameters.
type preprocessor struct {
	*state
	files  []*lexer
	conds  []cond
	frames []frame
	macros map[string]*macro // nil: not a macro
	order  []string          // the text's own macros
	once   map[string]bool   // texts with #pragma once
	raw    bool              // do not expand: code is being skipped
	spent  int               // tokens produced by expansions, at most
	most   int               // most, which is less than maxExpanded for a define's value
	size   int               // of all texts, in bytes
}

// open begins to read a text. at is the token that included it.
func (p *preprocessor) open(l *lexer, size int, at token) {
	if p.size += size; p.size > maxText {
		p.fail(at, "the text and what it includes have more than %d bytes: declare only what is needed",
			maxText)
		return
	}
	if len(p.files) == maxIncludes {
		p.fail(at, "more than %d files include one another: have one include itself no more", maxIncludes)
		return
	}
	l.conds = len(p.conds)
	p.files = append(p.files, l)
}

// next returns the next token after preprocessing.
func (p *preprocessor) next() token {
	for {
		t := p.unexpanded()
		switch {
		case p.err != nil || t.kind == isEnd:
			return token{pos: t.pos}
		case t.kind == isBad && !p.raw:
			p.fail(t, "%s", t.text)
		case t.kind != isWord || p.raw:
			return t
		case !p.expand(t):
			return t
		}
	}
}

// unexpanded returns the next token of a macro's body, or of a text.
func (p *preprocessor) unexpanded() (t token) {
	for len(p.frames) > 0 {
		f := &p.frames[len(p.frames)-1]
		if f.i < len(f.m.body) {
			t := f.m.body[f.i]
			f.i++
			if t.first = false; !f.own {
				t.pos = f.use
			}
			return t
		}
		f.m.active = false
		p.frames = p.frames[:len(p.frames)-1]
	}
	for p.err == nil && len(p.files) > 0 {
		l := p.files[len(p.files)-1]
		t = l.next(false)
		switch {
		case t.is("#") && t.first:
			p.directive(l, t)
		case t.kind == isEnd:
			if len(p.conds) > l.conds {
				p.fail(token{pos: p.conds[len(p.conds)-1].pos}, "this has no #endif: write one where it ends")
			}
			if len(p.files) == 1 {
				return t
			}
			p.files = p.files[:len(p.files)-1]
		default:
			return t
		}
	}
	return t
}

// expand replaces a macro's name by its body.
func (p *preprocessor) expand(t token) bool {
	m := p.lookup(t.text)
	if m == nil || m.active {
		return false
	}
	if m.called {
		if next := p.ahead(); next.is("(") {
			p.fail(t, "%s is a macro with parameters (%v), which are not expanded: write out what it "+
				"stands for", quote(t.text), m.pos)
		}
		return false
	}
	if p.spent += len(m.body) + 1; p.spent > p.most {
		p.fail(t, "macros expand to more than %d tokens: write less by macros", maxExpanded)
		return true
	}
	m.active = true
	p.frames = append(p.frames, frame{m: m, use: t.pos}) // nested macros: the outermost's
	return true
}

// ahead returns the next token without consuming it.
func (p *preprocessor) ahead() token {
	for _, f := range slices.Backward(p.frames) {
		if f.i < len(f.m.body) {
			return f.m.body[f.i]
		}
	}
	if len(p.files) == 0 {
		return token{}
	}
	l := *p.files[len(p.files)-1]
	return l.next(false)
}

// lookup returns the macro with that name, or nil. It asks the caller once for those that the
// text does not define.
func (p *preprocessor) lookup(name string) *macro {
	if m, ok := p.macros[name]; ok {
		return m
	}
	body, ok := "", false
	if p.opts.Macro != nil {
		body, ok = p.opts.Macro(name)
	}
	if !ok {
		body, ok = p.machine.macro(name)
	}
	var m *macro
	if ok {
		l := newLexer("<"+name+">", body, 1, 1)
		m = &macro{name: name, pos: Pos{l.file, 1, 1}, given: true}
		for t := l.next(false); t.kind != isEnd && len(m.body) < maxExpanded; t = l.next(false) {
			m.body = append(m.body, t)
		}
	}
	p.macros[name] = m
	return m
}

// line returns the remaining tokens of a directive.
func (p *preprocessor) line(l *lexer) []token {
	var ts []token
	for {
		t := l.next(true)
		if t.kind == isEOL || t.kind == isEnd {
			return ts
		}
		ts = append(ts, t)
	}
}

// expanded expands the macros in tokens that are not part of the text's sequence.
func (p *preprocessor) expanded(ts []token) []token {
	files, frames := p.files, p.frames
	p.files, p.frames = nil, []frame{{m: &macro{body: ts}, own: true}}
	var out []token
	for t := p.next(); t.kind != isEnd; t = p.next() {
		out = append(out, t)
	}
	for _, f := range p.frames { // left by an expansion that failed
		f.m.active = false
	}
	p.files, p.frames = files, frames
	return out
}

// spelled returns the text of tokens, for Define.Text.
func spelled(ts []token) string {
	var b strings.Builder
	for i, t := range ts {
		if i > 0 && t.space {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}
