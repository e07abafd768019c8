package cdecl

import "slices"

// directive processes a line that begins with #.
func (p *preprocessor) directive(l *lexer, hash token) {
	name := l.next(true)
	if name.kind == isEOL || name.kind == isEnd {
		return // a single # has no effect
	}
	rest := p.line(l)
	switch name.text {
	case "define":
		p.define(name, rest)
	case "undef":
		if t := p.oneName(name, rest); p.err == nil {
			p.macros[t.text] = nil
		}
	case "include", "include_next", "import":
		p.include(name, rest)
	case "if", "ifdef", "ifndef":
		p.conds = append(p.conds, cond{pos: hash.pos})
		p.group(l, p.test(name, rest))
	case "elif", "elifdef", "elifndef", "else":
		if !p.inside(l, name) {
			return
		}
		// The group before this line was read, or else skip would have processed the line.
		p.conds[len(p.conds)-1].last = name.text == "else"
		p.skip(l)
	case "endif":
		if p.inside(l, name) {
			p.conds = p.conds[:len(p.conds)-1]
		}
	case "error":
		p.fail(hash, "the text refuses itself: #error %s", quote(spelled(rest)))
	case "pragma":
		p.pragma(l, name, rest)
	case "warning", "ident", "line", "sccs":
	default:
		p.fail(name, "#%s is not a known directive: take it out", quote(name.text))
	}
}

// inside reports whether an #if of this text is open that the directive may continue.
func (p *preprocessor) inside(l *lexer, name token) bool {
	if len(p.conds) <= l.conds {
		p.fail(name, "#%s has no #if before it: take it out, or write the #if", name.text)
		return false
	}
	if name.text != "endif" && p.conds[len(p.conds)-1].last {
		p.fail(name, "#%s comes after #else (of %v): take one of them out", name.text,
			p.conds[len(p.conds)-1].pos)
		return false
	}
	return true
}

// oneName returns the only name of a directive. Like compilers, which warn, it ignores
// anything after it.
func (p *preprocessor) oneName(name token, rest []token) token {
	if len(rest) == 0 || rest[0].kind != isWord {
		p.fail(name, "#%s wants a name: write #%[1]s NAME", name.text)
		return token{}
	}
	return rest[0]
}

// test evaluates a condition.
func (p *preprocessor) test(name token, rest []token) bool {
	switch name.text {
	case "ifdef", "elifdef", "ifndef", "elifndef":
		t := p.oneName(name, rest)
		wanted := name.text == "ifdef" || name.text == "elifdef"
		return p.err == nil && (p.lookup(t.text) != nil) == wanted
	case "else":
		return true
	}
	if len(rest) == 0 {
		p.fail(name, "#%s wants a condition: write #%[1]s EXPRESSION", name.text)
		return false
	}
	end := token{kind: isEOL, pos: rest[len(rest)-1].pos}
	c := newParser(p.state, &slice{p.expanded(p.definedIn(rest)), end})
	v := (&evaluator{parser: c, condition: true}).expression()
	if p.err == nil && c.tok.kind != isEOL {
		p.fail(c.tok, "after the condition comes %v: end it there", &c.tok)
	}
	return v.Bits != 0
}

// definedIn evaluates defined X and defined(X) in a condition, before X is expanded.
func (p *preprocessor) definedIn(ts []token) []token {
	if !slices.ContainsFunc(ts, func(t token) bool { return t.text == "defined" }) {
		return ts
	}
	var out []token
	for i := 0; i < len(ts); i++ {
		if !ts[i].is("defined") {
			out = append(out, ts[i])
			continue
		}
		n, name := 1, 1
		if i+1 < len(ts) && ts[i+1].is("(") {
			n, name = 3, 2
		}
		if i+n >= len(ts) || ts[i+name].kind != isWord || n == 3 && !ts[i+3].is(")") {
			p.fail(ts[i], `"defined" wants a name: write defined(NAME)`)
			return nil
		}
		answer := token{kind: isNumber, text: "0", pos: ts[i].pos}
		if p.lookup(ts[i+name].text) != nil {
			answer.text = "1"
		}
		out = append(out, answer)
		i += n
	}
	return out
}

// group begins a group of an #if: it is read if the condition holds, otherwise skipped.
func (p *preprocessor) group(l *lexer, holds bool) {
	if p.conds[len(p.conds)-1].taken = holds; !holds && p.err == nil {
		p.skip(l)
	}
}

// skip moves to the next group to read, or to the #endif.
func (p *preprocessor) skip(l *lexer) {
	open := 0 // number of open #if in the skipped text
	for p.err == nil {
		t := l.next(false)
		if t.kind == isEnd {
			l.first = true // next reports it
			return
		}
		if !t.is("#") || !t.first {
			continue
		}
		name := l.next(true)
		if name.kind == isEOL || name.kind == isEnd {
			continue
		}
		rest := p.line(l)
		switch name.text {
		case "if", "ifdef", "ifndef":
			open++
		case "endif":
			if open--; open < 0 {
				p.conds = p.conds[:len(p.conds)-1]
				return
			}
		case "else", "elif", "elifdef", "elifndef":
			if open == 0 && p.other(l, name, rest) {
				return
			}
		}
	}
}

// other reports whether the group of an #else or #elif, found while skipping, is to be read.
func (p *preprocessor) other(l *lexer, name token, rest []token) bool {
	if !p.inside(l, name) {
		return true
	}
	c := &p.conds[len(p.conds)-1]
	c.last = name.text == "else"
	if c.taken || !p.test(name, rest) {
		return false
	}
	c.taken = true
	return true
}

func (p *preprocessor) define(at token, rest []token) {
	name := p.oneName(at, rest)
	if p.err != nil {
		return
	}
	m := &macro{name: name.text, pos: name.pos, body: rest[1:]}
	if len(rest) > 1 && rest[1].is("(") && !rest[1].space {
		if !p.opts.SkipCode {
			p.fail(name, "%s is a macro with parameters, which are not expanded: write what it stands "+
				"for where it is used", quote(name.text))
			return
		}
		m.called, m.body = true, nil
		p.skipped("macro", name)
	}
	if old := p.macros[name.text]; old == nil || old.given {
		p.order = append(p.order, name.text)
	}
	p.macros[name.text] = m
}

// pragma processes the pragmas that affect declarations.
func (p *preprocessor) pragma(l *lexer, name token, rest []token) {
	if len(rest) == 0 {
		return
	}
	switch rest[0].text {
	case "once":
		p.once[l.file] = true
	case "pack", "scalar_storage_order", "ms_struct":
		p.fail(name, "#pragma %s changes how structs are laid out, which is not done here: "+
			"write __attribute__((packed)) or aligned(n) at the struct", rest[0].text)
	}
}

// include gets an included text from the caller, which is read next.
func (p *preprocessor) include(at token, rest []token) {
	if ts := rest; len(ts) > 0 && ts[0].kind == isWord {
		rest = p.expanded(ts)
	}
	i := Include{Pos: at.pos}
	switch {
	case len(rest) == 1 && rest[0].kind == isText:
		i.Name = rest[0].text[1 : len(rest[0].text)-1]
	case len(rest) > 2 && rest[0].is("<") && rest[len(rest)-1].is(">"):
		i.System = true
		i.Name = spelled(rest[1 : len(rest)-1])
	}
	if i.Name == "" && p.err == nil {
		p.fail(at, `#%s wants a file: write <name.h> or "name.h"`, at.text)
	}
	if p.err != nil {
		return
	}
	if len(p.decls.Includes) == maxMembers {
		p.fail(at, "there are more than %d includes: include less", maxMembers)
		return
	}
	var body []byte
	if p.opts.Include != nil {
		var err error
		if body, err = p.opts.Include(&i); err != nil {
			p.failBy(at, err, "%s can't be included: %v", quote(i.Name), err)
			return
		}
	}
	i.Read = body != nil
	p.decls.Includes = append(p.decls.Includes, i)
	if i.File == "" {
		i.File = i.Name
	}
	if body != nil && !p.once[i.File] {
		p.open(newLexer(i.File, string(body), 1, 1), len(body), at)
	}
}
