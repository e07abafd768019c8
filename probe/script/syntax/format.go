package syntax

import (
	"strconv"
	"strings"
)

const (
	indentWidth = 2
	pageWidth   = 90
)

// Format returns a script as bpftrace --fmt prints it. The result parses to the same tree, and
// formatting it again does not change it. If bpftrace's own output would not have these
// properties, parentheses, a space or a semicolon are added. Comments are kept: those within
// an expression go before the statement, those between attach points and block on lines of
// their own. Format returns nil for a script with syntax errors, and for a File that Parse did
// not return.
func Format(f *File) []byte {
	if f.In == nil || f.broken {
		return nil
	}
	p := &formatter{src: f.In}
	return p.file(f).bytes()
}

// formatter prints nodes. Its methods take the comments that are not printed yet, the number
// of columns that are left, and whether the context needs no parentheses. The number of
// columns wraps around below 0, as in bpftrace.
type formatter struct {
	src    *Text
	lifted []string
	// dropped is set before an if or a block whose value the parser would drop, so that no
	// semicolon is needed after it.
	dropped bool
	// wrapName is set before an expression in which the first indexed name needs parentheses:
	// see looksLikeType.
	wrapName bool
	// dump is set for output that is not parsed again.
	dump bool
	// note returns the comment that is printed after each expression. Nil: no comments.
	note func(Expr) string
}

func (f *formatter) file(file *File) *page {
	p := newPage()
	if file.Header != "" {
		p.text(file.Header).newLine()
	}
	s := &spaces{file.space}
	for _, d := range file.Decls {
		p = f.block(p, s.before(d.At().Start))
		p = f.below(p, 0, f.decl(d, s)).newLine()
	}
	return f.block(p, s)
}

func (f *formatter) decl(d Decl, s *spaces) *page {
	switch d := d.(type) {
	case *C:
		return text(d.Text)
	case *Import:
		f.lift(s.before(d.End - 1))
		return text(`import "`, escape(d.Path), `";`)
	case *MapDecl:
		f.lift(s.before(d.End - 1))
		return text("let ", d.Name, " = ", d.Kind, "(", strconv.FormatUint(d.Entries, 10), ");")
	case *Config:
		f.lift(s.before(d.End - 1))
		return f.config(d)
	case *Macro:
		return f.macro(d, s)
	case *Func:
		return f.function(d, s)
	case *Probe:
		return f.probe(d, s)
	}
	return newPage()
}

func (f *formatter) config(c *Config) *page {
	vars := newPage()
	for i, v := range c.Vars {
		if i > 0 {
			vars.newLine()
		}
		vars.text(v.Name, " = ", configValue(v.Value), ";")
	}
	return text("config = {").indent(vars).text("}")
}

func configValue(x Expr) string {
	switch x := x.(type) {
	case *Boolean:
		return strconv.FormatBool(x.Value)
	case *Integer:
		return strconv.FormatUint(x.Value, 10)
	case *String:
		for i := range len(x.Value) {
			if !wordByte(x.Value[i]) {
				return `"` + escape(x.Value) + `"`
			}
		}
		if x.Value == "" || digit(x.Value[0]) || x.Value == "true" || x.Value == "false" {
			return `"` + x.Value + `"`
		}
		return x.Value
	}
	return ""
}

func (f *formatter) macro(m *Macro, s *spaces) *page {
	args := f.exprs(m.Args, ", ", s, pageWidth-10, true)
	f.lift(s.before(m.Body.Start))
	body := f.body(m.Body, s, pageWidth-indentWidth, valued)
	p := text("macro ", m.Name, "(").append(args).text(")").newLine()
	return p.text("{").indent(body).text("}")
}

func (f *formatter) function(fn *Func, s *spaces) *page {
	before := s.before(fn.Body.Start)
	result := f.typeOf(fn.Result, s, pageWidth)
	args := make([]*page, len(fn.Args))
	for i, a := range fn.Args {
		args[i] = text(a.Var.Name, " : ").append(f.typeOf(a.Type, s, pageWidth))
	}
	list := fit(args, ", ", pageWidth-uint(len(fn.Name)+5))
	body := f.body(fn.Body, s, pageWidth-indentWidth, statements)
	p := text("fn ", fn.Name, "(")
	if list.count() > 1 || list.width()+result.width()+12 > pageWidth {
		p.indent(list)
	} else {
		p.append(list)
	}
	p.text(") : ").append(result).newLine()
	f.lift(before)
	return p.text("{").indent(body).text("}")
}

func (f *formatter) probe(pr *Probe, s *spaces) *page {
	p := newPage()
	glued := false
	for i, a := range pr.Points {
		p.text(a.Text)
		if i < len(pr.Points)-1 {
			p.text(",")
		} else if len(a.Text) > 1 && strings.HasSuffix(a.Text, "/") && !strings.Contains(a.Text, ":") {
			glued = true // only with the predicate's slash the last one is part of the text
			break
		}
		p.newLine()
	}
	if pr.Pred != nil {
		before := s.before(pr.Pred.At().Start)
		since := len(f.lifted)
		pred := f.expr(pr.Pred, s, pageWidth, true)
		f.lift(s.before(pr.Body.Start))
		if glued {
			f.lift(before)
		} else {
			p = f.below(f.ownLines(p, before), since, newPage())
		}
		slash := "/"
		if first := pred.first(); first == '*' || first == '/' {
			slash = "/ " // "//" and "/*" would begin a comment
		}
		p.text(slash).append(pred).text("/").newLine()
	}
	before := s.before(pr.Body.Start)
	body := f.body(pr.Body, s, pageWidth-2, statements)
	p = f.ownLines(p, before)
	return p.text("{").indent(body).text("}")
}

// ownLines prints comments as lines of their own, without empty lines between them.
func (f *formatter) ownLines(p *page, s *spaces) *page {
	for _, sp := range s.list {
		if sp.comment {
			p.comment(f.comment(sp)).newLine()
		}
	}
	return p
}

// first returns the first byte of a page's text that is not in a comment, 0 if there is none.
func (p *page) first() byte {
	for _, s := range p.lines[0].all() {
		if !s.comment && s.text != "" {
			return s.text[0]
		}
	}
	return 0
}

// escape returns a string as it is written between quotes.
func escape(s string) string {
	const hex = "0123456789abcdef"
	special := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	if strings.IndexFunc(s, special) < 0 {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\\' || c == '"':
			b.WriteString("\\" + string(rune(c)))
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\r':
			b.WriteString(`\r`)
		case c < ' ' || c > '~':
			b.WriteString(`\x` + string(hex[c>>4]) + string(hex[c&15]))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
