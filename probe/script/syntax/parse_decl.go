package syntax

import (
	"strconv"
	"strings"
)

// hashLine parses a line that begins with "#".
func (p *scriptParser) hashLine() *C {
	start := p.pos
	for !p.end() && p.text[p.pos] != '\n' {
		p.pos++
	}
	c := &C{Loc: p.since(start), Text: strings.TrimRight(p.text[start:p.pos], " \t\r\v\f")}
	p.advance(1)
	return c
}

// definesC reports whether the definition of a struct, union or enum begins here: the keyword
// is followed by names and brackets, and then by a brace. (An attach point may also begin with
// such a word.)
func (p *scriptParser) definesC() bool {
	switch p.keyword() {
	case "struct", "union", "enum":
	default:
		return false
	}
	for at := p.skip(p.word(p.pos)); at < len(p.text); at = p.skip(at) {
		var ok bool
		switch c := p.text[at]; {
		case c == '{':
			return true
		case letter(c):
			at = p.word(at)
			continue
		case c == '(':
			at, ok = p.balanced(at, '(', ')')
		case c == '[':
			at, ok = p.balanced(at, '[', ']')
		}
		if !ok {
			return false
		}
	}
	return false
}

// definition parses a C definition with its closing brace, attributes and semicolon.
func (p *scriptParser) definition() *C {
	start := p.pos
	for !p.end() && p.text[p.pos] != '{' {
		p.pos++
	}
	for depth := 0; !p.end(); {
		c := p.text[p.pos]
		if c == '/' && (p.peek(1) == '/' || p.peek(1) == '*') {
			p.pos = p.skip(p.pos)
			continue
		}
		p.pos++
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	text := strings.TrimRight(p.text[start:p.pos], " \t\r\n\v\f") + p.attributes()
	if !strings.HasSuffix(text, ";") {
		text += ";"
	}
	p.layout()
	if p.peek(0) == ';' {
		p.pos++
	}
	return &C{Loc: p.since(start), Text: text}
}

func (p *scriptParser) attributes() string {
	start := p.pos
	end := start
	for p.matchWord("__attribute__") {
		p.layout()
		if p.peek(0) != '(' || p.peek(1) != '(' {
			p.fail("__attribute__ syntax error, expected '(('")
			break
		}
		after, ok := p.balanced(p.pos, '(', ')')
		if !ok {
			p.fail("__attribute__ syntax error, mismatched '(' and ')'")
		}
		p.pos, end = after, after
	}
	return p.text[start:end]
}

func (p *scriptParser) config() *Config {
	start := p.pos
	if !p.expectWord("config") || !p.expect('=') || !p.expect('{') {
		return nil
	}
	c := &Config{}
	p.layout()
	for p.peek(0) != '}' && !p.end() {
		v := p.configVar()
		if v == nil {
			break
		}
		c.Vars = append(c.Vars, v)
		p.layout()
		if p.peek(0) != '}' && !p.match(';') {
			p.expect(';')
			for !p.end() && p.text[p.pos] != '}' {
				p.pos++
			}
			break
		}
		p.match(';')
		p.layout()
	}
	p.expect('}')
	c.Loc = p.since(start)
	return c
}

// configVar parses name = value. It returns nil after an error.
func (p *scriptParser) configVar() *ConfigVar {
	v := &ConfigVar{}
	start := p.pos
	if v.Name = p.identifier("expected config key"); v.Name == "" || !p.expect('=') {
		return nil
	}
	p.layout()
	at := p.pos
	switch {
	case p.peek(0) == '"':
		s := p.str()
		v.Value = &String{p.since(at), s}
	case p.matchWord("true"):
		v.Value = &Boolean{p.since(at), true}
	case p.matchWord("false"):
		v.Value = &Boolean{p.since(at), false}
	case digit(p.peek(0)):
		text := p.number()
		n, err := ParseInteger(text)
		if err != nil {
			p.fail("invalid integer in config")
			return nil
		}
		v.Value = &Integer{Loc: p.since(at), Value: n, Text: text}
	default:
		s := p.identifier("expected string, int, boolean, or ident")
		v.Value = &String{p.since(at), s}
	}
	v.Loc = p.since(start)
	return v
}

// skipConfig reports msg and skips a config block in a place where none is allowed.
func (p *scriptParser) skipConfig(msg string) {
	start := p.pos
	p.matchWord("config")
	p.failAt(start, p.pos, msg)
	if !p.match('=') || !p.match('{') {
		return
	}
	for depth := 1; !p.end() && depth > 0; p.pos++ {
		switch p.text[p.pos] {
		case '{':
			depth++
		case '}':
			depth--
		}
	}
}

// importPath parses an import. It returns nil after an error.
func (p *parser) importPath() *Import {
	start := p.pos
	if !p.expectWord("import") {
		return nil
	}
	p.layout()
	if p.peek(0) != '"' {
		p.fail("expected string after 'import'")
		return nil
	}
	path := p.str()
	i := &Import{p.since(start), path}
	if !p.match(';') {
		p.fail("expected ';' after import")
		return nil
	}
	return i
}

func (p *scriptParser) macro() *Macro {
	start := p.pos
	p.expectWord("macro")
	m := &Macro{Name: p.identifier("expected macro name")}
	m.Loc = p.since(start)
	if m.Name == "" || !p.expect('(') {
		return nil
	}
	p.layout()
	if p.peek(0) != ')' {
		for more := true; more; more = p.match(',') {
			m.Args = append(m.Args, p.macroArg())
		}
	}
	if !p.expect(')') {
		return nil
	}
	if m.Body = p.block(true); m.Body == nil {
		return nil
	}
	return m
}

func (p *scriptParser) macroArg() Expr {
	p.layout()
	start := p.pos
	switch p.peek(0) {
	case '$':
		name := p.variableName()
		return &Variable{p.since(start), name}
	case '@':
		name := p.mapName()
		return &Map{p.since(start), name}
	}
	name := p.identifier("expected macro argument ($var, @map, or identifier)")
	if name == "" {
		return p.none()
	}
	if grammarBuiltin(name) {
		p.failAt(start, p.pos, "builtin '"+name+"' can't be used as a macro argument")
		return p.none()
	}
	return &Identifier{p.since(start), name}
}

func (p *scriptParser) function() *Func {
	start := p.pos
	p.expectWord("fn")
	f := &Func{Name: p.identifier("expected function name")}
	f.Loc = p.since(start)
	if f.Name == "" || !p.expect('(') {
		return nil
	}
	p.layout()
	if p.peek(0) != ')' {
		for more := true; more; more = p.match(',') {
			a := p.funcArg()
			if a == nil {
				break
			}
			f.Args = append(f.Args, a)
		}
	}
	if !p.expect(')') || !p.expect(':') {
		return nil
	}
	if f.Result = p.annotation(true); f.Result == nil {
		return nil
	}
	if f.Body = p.block(false); f.Body == nil {
		return nil
	}
	return f
}

func (p *scriptParser) funcArg() *FuncArg {
	p.layout()
	start := p.pos
	if p.peek(0) != '$' {
		p.fail("expected variable in function argument")
		return nil
	}
	a := &FuncArg{Var: p.variable()}
	if !p.expect(':') {
		return nil
	}
	if a.Type = p.annotation(true); a.Type == nil {
		return nil
	}
	a.Loc = p.since(start)
	return a
}

func (p *scriptParser) mapDecl() *MapDecl {
	start := p.pos
	p.expectWord("let")
	p.layout()
	d := &MapDecl{Name: p.mapName()}
	if !p.expect('=') {
		return nil
	}
	if d.Kind = p.identifier("expected map type name"); d.Kind == "" || !p.expect('(') {
		return nil
	}
	n, err := ParseInteger(p.number())
	if err != nil {
		p.fail("expected positive integer for map declaration max entries")
		return nil
	}
	d.Entries = n
	if !p.expect(')') {
		return nil
	}
	p.match(';')
	d.Loc = p.since(start)
	return d
}

func (p *scriptParser) probe() *Probe {
	start := p.pos
	pr := &Probe{}
	for more := true; more; more = p.match(',') {
		p.layout()
		if c := p.peek(0); len(pr.Points) > 0 && (c == '/' || c == '{') {
			break // the comma was the last one
		}
		a := p.attachPoint()
		if a == nil {
			break
		}
		pr.Points = append(pr.Points, a)
	}
	if len(pr.Points) == 0 {
		return nil
	}
	pr.Loc = p.since(start)
	pr.End = pr.Points[len(pr.Points)-1].End
	pr.Pred = p.predicate()
	if pr.Body = p.block(false); pr.Body == nil {
		return nil
	}
	return pr
}

// attachPoint takes raw text up to the predicate, the block or another attach point. After a
// colon, a slash is part of a path.
func (p *scriptParser) attachPoint() *AttachPoint {
	p.layout()
	start, colon := p.pos, false
scan:
	for !p.end() {
		c := p.text[p.pos]
		switch {
		case c == '{' || c == ',' || anySpace(c):
			break scan
		case c == '/' && p.pos > start && !colon:
			if next := p.peek(1); next != '/' && next != '*' {
				break scan
			}
		case c == '"':
			p.quoted()
			colon = colon || strings.Contains(p.text[start:p.pos], ":")
			continue
		}
		colon = colon || c == ':'
		p.pos++
	}
	if p.pos == start {
		p.fail("expected attach point")
		return nil
	}
	if p.points++; p.points > mostPoints {
		p.stop("more than " + strconv.Itoa(mostPoints) + " attach points")
		return nil
	}
	return &AttachPoint{Loc: p.since(start), Text: p.text[start:p.pos]}
}

// quoted skips a string in an attach point.
func (p *scriptParser) quoted() {
	p.advance(1)
	for !p.end() && p.text[p.pos] != '"' {
		if p.text[p.pos] == '\\' {
			p.pos++
		}
		p.advance(1)
	}
	p.advance(1)
}

func (p *scriptParser) predicate() Expr {
	p.layout()
	if p.peek(0) != '/' {
		return nil
	}
	p.pos++
	x := p.expression()
	if !p.match('/') {
		p.fail("expected '/' to close predicate")
	}
	return x
}
