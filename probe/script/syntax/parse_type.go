package syntax

import "strings"

// typ parses a type. It returns nil after an error, which is reported if say is set.
func (p *parser) typ(say bool) *Type {
	orElse := func(msg string) string {
		if say {
			return msg
		}
		return ""
	}
	start := p.pos
	t := &Type{Name: p.identifier(orElse("expected type name"))}
	switch t.Name {
	case "":
		return nil
	case "struct", "union", "enum":
		t.Kind = t.Name
		if t.Name = p.identifier(orElse("expected identifier")); t.Name == "" {
			return nil
		}
	}
	t.Loc = p.since(start)
	return p.typeSuffixes(t)
}

// typeSuffixes parses any number of * and […].
func (p *parser) typeSuffixes(t *Type) *Type {
	p.layout()
	for levels := 0; ; levels++ {
		start := p.pos
		switch p.peek(0) {
		case '*':
			p.pos++
			t = &Type{Loc: p.since(start), Kind: "*", Elem: t}
		case '[':
			p.pos++
			p.layout()
			array := &Type{Kind: "[]", Elem: t, Open: p.peek(0) == ']'}
			if !array.Open {
				array.Len, _ = ParseInteger(p.number())
			}
			p.expect(']')
			array.Loc = p.since(start)
			t = array
		default:
			return t
		}
		if levels > mostLevels {
			p.stop("type has too many levels")
		}
		p.layout()
	}
}

// builtinType reports whether a name is a type of the language.
func builtinType(name string) bool {
	switch name {
	case "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "void",
		"min_t", "max_t", "sum_t", "count_t", "avg_t", "stats_t", "umin_t", "umax_t", "usum_t",
		"uavg_t", "ustats_t", "timestamp", "macaddr_t", "cgroup_path_t", "string", "buffer", "inet":
		return true
	}
	return false
}

// typeReference parses a type, or a name that may be a type (then an *Identifier), if it is
// followed by one of the bytes in ends. Otherwise it returns nil.
func (p *parser) typeReference(ends string) Node {
	start := p.pos
	p.layout()
	at := p.word(p.pos)
	name := p.text[p.pos:at]
	if !letter(p.peek(0)) || grammarBuiltin(name) {
		p.pos = start
		return nil
	}
	known := builtinType(name)
	if name == "struct" || name == "union" || name == "enum" {
		if at = p.skip(at); !letter(p.char(at)) {
			p.pos = start
			return nil
		}
		at = p.word(at)
		known = true
	}
	after, suffixed, ok := p.skipSuffixes(at)
	if c := p.char(p.skip(after)); !ok || c == 0 || strings.IndexByte(ends, c) < 0 {
		p.pos = start
		return nil
	}
	if known || suffixed {
		if t := p.typ(true); t != nil {
			return t
		}
		return p.none()
	}
	p.pos = p.word(p.pos)
	return &Identifier{p.since(p.pos - len(name)), name}
}

// skipSuffixes returns the end of a type's suffixes.
func (p *parser) skipSuffixes(at int) (after int, suffixed, ok bool) {
	for at = p.skip(at); ; at = p.skip(at) {
		switch p.char(at) {
		case '*':
			at++
		case '[':
			// The search is limited: text that is not a type may be long, and contain more of
			// the same.
			if at, ok = balanced(p.text[:min(at+mostType, len(p.text))], at, '[', ']'); !ok {
				return at, true, false
			}
		default:
			return at, suffixed, true
		}
		suffixed = true
	}
}

// annotation parses a type or typeof(…), and if only is not set also an expression.
func (p *parser) annotation(only bool) *TypeOf {
	p.layout()
	start := p.pos
	t := &TypeOf{}
	switch {
	case p.matchWord("typeof"):
		p.expect('(')
		p.layout()
		t.X = p.typeOrExpr(")")
		p.expect(')')
	case only:
		named := p.typ(true)
		if named == nil {
			return nil
		}
		t.X = named
	default:
		t.X = p.typeOrExpr(";,=){}")
	}
	t.Loc = p.since(start)
	return t
}

func (p *parser) typeOrExpr(ends string) Node {
	if n := p.typeReference(ends); n != nil {
		return n
	}
	return p.expression()
}
