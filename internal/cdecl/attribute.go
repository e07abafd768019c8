package cdecl

import "strings"

// isAttribute reports whether a token begins something that attribute reads.
func isAttribute(t *token) bool {
	switch t.text {
	case "__attribute__", "__attribute", "_Alignas", "alignas", "__packed", "__aligned":
		return t.kind == isWord
	}
	return t.kind == isWord && silent(t.text)
}

// silent reports whether a name is a word with which the kernel's sources annotate
// declarations for checkers.
func silent(name string) bool {
	switch name {
	case "__user", "__rcu", "__iomem", "__percpu", "__kernel", "__force", "__bitwise", "__bitwise__",
		"__must_check",
		"__randomize_layout", "__read_mostly", "__ro_after_init", "__nocast", "__safe", "__private":
		return true
	}
	return false
}

// attribute reads an attribute, if the next token begins one.
func (p *parser) attribute(a *attrs) bool {
	if !isAttribute(&p.tok) {
		return false
	}
	at := p.tok
	p.next()
	switch at.text {
	case "__packed":
		a.packed = true
	case "__aligned", "_Alignas", "alignas":
		p.want("(", at.text)
		p.alignment(a, at)
		p.want(")", "an alignment")
	case "__attribute__", "__attribute":
		p.want("(", at.text)
		p.want("(", at.text+"(")
		for p.err == nil && !p.tok.is(")") {
			if p.tok.kind == isWord {
				p.attributeName(a)
			}
			if !p.take(",") {
				break
			}
		}
		p.want(")", "the attributes")
		p.want(")", "the attributes")
	}
	return true
}

// attributeName reads one attribute of a list.
func (p *parser) attributeName(a *attrs) {
	at := p.tok
	p.next()
	switch strings.Trim(at.text, "_") {
	case "packed":
		a.packed = true
	case "aligned":
		if p.take("(") {
			p.alignment(a, at)
			p.want(")", "an alignment")
			return
		}
		a.align, a.at = max(a.align, 16), at // the largest of the machine's types
	case "mode", "vector_size", "ms_struct", "scalar_storage_order":
		p.stop(at, "attribute %s changes how a type is laid out, which is not done here: declare the "+
			"type without it", quote(at.text))
	default:
		if p.tok.is("(") {
			p.arguments()
		}
	}
}

// arguments skips the arguments of an attribute that does not affect layouts.
func (p *parser) arguments() {
	at := p.tok
	for open := 0; p.err == nil && p.tok.kind != isEnd; p.next() {
		switch {
		case p.tok.is("("):
			open++
		case p.tok.is(")"):
			if open--; open == 0 {
				p.next()
				return
			}
		}
	}
	p.stop(at, "this %q is not closed: write a \")\" where it ends", "(")
}

// alignment reads the argument of aligned, or of _Alignas, which may be a type.
func (p *parser) alignment(a *attrs, at token) {
	value := p.tok
	var n uint64
	if p.beginsType(&p.tok) {
		t := p.complete(p.typeName(), value)
		n = p.infoOf(t).align
	} else {
		v := p.expression()
		if n = v.Bits; p.err == nil && (v.Negative() || n > maxSize || n&(n-1) != 0) {
			p.stop(value, "an alignment can't be %v: write a power of two up to %d", v, maxSize)
			return
		}
	}
	if n > a.align {
		a.align, a.at = n, at
	}
}

// label skips a declaration's assembly name.
func (p *parser) label() bool {
	if !p.tok.is("__asm__") && !p.tok.is("asm") && !p.tok.is("__asm") {
		return false
	}
	if p.next(); p.tok.is("(") {
		p.arguments()
	}
	return true
}
