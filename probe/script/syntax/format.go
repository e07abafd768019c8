package syntax

import (
	"strconv"
	"strings"
)

const (
	indentWidth = 2
	pageWidth   = 90
)

// Format returns a script as bpftrace's --fmt prints it. It parses to the same tree, and
// formatted again it stays as it is; where what bpftrace prints would not, parentheses, a
// space or a semicolon are added. Comments stay too, those amid an expression before the
// statement, those between attach points and block on lines of their own. Of a script with
// syntax errors it returns nil, as of what Parse has not made.
func Format(f *File) []byte {
	if f.Source == nil || f.broken {
		return nil
	}
	p := &formatter{src: f.Source}
	return p.file(f).bytes()
}

// formatter prints nodes. Its methods get the comments that are not printed yet, the
// columns that are left, which wrap around where there are none, as in bpftrace, and
// whether the context needs no parentheses.
type formatter struct {
	src    *Source
	lifted []string
	// dropped is set before an if or block whose value parse would drop, so that it needs
	// no semicolon after it.
	dropped bool
	// wrapName is set before an expression in which the first name that is indexed needs
	// parentheses: looksLikeType.
	wrapName bool
	// dump is for what nobody parses.
	dump bool
	// note says what is printed behind each expression; nil: nothing.
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
			glued = true // only the predicate's slash makes the last one part of the text
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
			slash = "/ " // no comment
		}
		p.text(slash).append(pred).text("/").newLine()
	}
	before := s.before(pr.Body.Start)
	body := f.body(pr.Body, s, pageWidth-2, statements)
	p = f.ownLines(p, before)
	return p.text("{").indent(body).text("}")
}

// ownLines prints comments as lines, without empty lines among them.
func (f *formatter) ownLines(p *page, s *spaces) *page {
	for _, sp := range s.list {
		if sp.comment {
			p.comment(f.comment(sp)).newLine()
		}
	}
	return p
}

// first is the first byte of a page's text.
func (p *page) first() byte {
	for _, s := range p.lines[0].segs {
		if !s.comment && s.text != "" {
			return s.text[0]
		}
	}
	return 0
}

// escape is a string as scripts write it between quotes.
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
