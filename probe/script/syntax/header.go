package syntax

import "strings"

// ParseHeader parses a C header that a script imports, into a file of [C] nodes: one for each
// preprocessor line, and one for the text between two of them. It does not check that the text
// is C; this is left to the package that parses the types. Options and limits are those of
// [Parse].
func ParseHeader(name string, text []byte, o *Options) (*File, error) {
	p := newScript(name, text)
	f := &File{}
	for p.pos = p.skip(0); !p.end() && !p.failed(); p.pos = p.skip(p.pos) {
		if p.peek(0) == '#' {
			f.Decls = append(f.Decls, p.longHashLine())
			continue
		}
		start := p.pos
		p.passC()
		text := strings.TrimRight(p.text[start:p.pos], " \t\r\n\v\f")
		l := p.since(start)
		l.End = int32(start + len(text))
		f.Decls = append(f.Decls, &C{Loc: l, Text: text})
	}
	f.Loc = Loc{In: p.src, End: int32(len(p.text))}
	return p.done(f, o)
}

// longHashLine parses a preprocessor line with its continuation lines.
func (p *scriptParser) longHashLine() *C {
	start := p.pos
	var b strings.Builder
	for {
		c := p.hashLine()
		line, more := strings.CutSuffix(c.Text, "\\")
		b.WriteString(line)
		if !more || p.end() {
			return &C{Loc: Loc{In: p.src, Start: int32(start), End: c.End}, Text: b.String()}
		}
	}
}

// passC skips to the next preprocessor line, which has a # as its first character apart from
// spaces and comments.
func (p *scriptParser) passC() {
	first := true
	for !p.end() {
		c := p.text[p.pos]
		switch {
		case c == '#' && first:
			return
		case c == '/' && (p.peek(1) == '/' || p.peek(1) == '*'):
			start := p.pos
			p.pos = p.skip(start)
			first = first || strings.Contains(p.text[start:p.pos], "\n")
			continue
		case c == '\n':
			first = true
		case !anySpace(c):
			first = false
		}
		p.pos++
	}
}
