package cdecl

import (
	"slices"
	"strings"
)

// source is where a parser's tokens come from.
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
	given  bool // by Options.Macro or this package, not by the text
	active bool // is being expanded
}

// frame is a macro's body that is being read, in place of the token use.
type frame struct {
	m   *macro
	i   int
	use Pos
	own bool // the tokens stay where they are
}

// cond is an #if that is open.
type cond struct {
	pos   Pos
	taken bool // one of its groups was read
	last  bool // #else was there
}

// preprocessor reads texts with their directives, and expands macros without
// parameters.
type preprocessor struct {
	*state
	files  []*lexer
	conds  []cond
	frames []frame
	macros map[string]*macro // nil: known not to be one
	order  []string          // of the text's own macros
	once   map[string]bool   // texts that #pragma once is in
	raw    bool              // expand nothing: the code is skipped
	spent  int               // tokens that expansions made, up to
	most   int               // which is less than maxExpanded for a define's value
	size   int               // of all texts
}

// open begins to read a text. at says where that is asked for.
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

// next is the next token of what is left of all texts when directives are obeyed.
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

// unexpanded is a token of a macro's body, or of a text.
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

// expand puts a macro's body in the place of its name.
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
	p.frames = append(p.frames, frame{m: m, use: t.pos}) // of macros in macros, the outermost's
	return true
}

// ahead is the next token, which stays the next.
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

// lookup is the macro of that name, or nil. Those that the text does not define are
// asked of the caller, once.
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

// line is the rest of a directive's tokens.
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

// expanded expands the macros among tokens that are no part of a text's flow.
func (p *preprocessor) expanded(ts []token) []token {
	files, frames := p.files, p.frames
	p.files, p.frames = nil, []frame{{m: &macro{body: ts}, own: true}}
	var out []token
	for t := p.next(); t.kind != isEnd; t = p.next() {
		out = append(out, t)
	}
	for _, f := range p.frames { // of an expansion that failed
		f.m.active = false
	}
	p.files, p.frames = files, frames
	return out
}

// spelled is how tokens are written, for Define.Text.
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
