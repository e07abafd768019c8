package syntax

import (
	"slices"
	"strings"
)

// mostIndent is the largest indentation in columns, so that deeply nested text does not
// consist mostly of spaces.
const mostIndent = 200

// page is formatted text: lines of segments. newPage returns a page with one empty line.
type page struct {
	lines []line
}

type line struct {
	indent   int
	segs     []segment
	columns  int  // of the text in segs, without comments
	comments bool // segs has comments
}

type segment struct {
	text    string
	comment bool // printed after slashes at the end of a line, else between stars
}

func newPage() *page { return &page{lines: make([]line, 1, 2)} }

func text(parts ...string) *page { return newPage().text(parts...) }

// text appends to the last line.
func (p *page) text(parts ...string) *page {
	l := &p.lines[len(p.lines)-1]
	for _, s := range parts {
		l.segs = append(l.segs, segment{text: s})
		l.columns += len(s)
	}
	return p
}

func (p *page) comment(s string) *page {
	l := &p.lines[len(p.lines)-1]
	l.segs = append(l.segs, segment{s, true})
	l.comments = true
	return p
}

func (p *page) newLine() *page {
	p.lines = append(p.lines, line{})
	return p
}

func (l *line) empty() bool { return l.indent == 0 && len(l.segs) == 0 }

// count returns the number of lines, without a last line that is empty.
func (p *page) count() int {
	if p.lines[len(p.lines)-1].empty() {
		return len(p.lines) - 1
	}
	return len(p.lines)
}

// append appends another page to the last line. The further lines of o are aligned with its
// first.
func (p *page) append(o *page) *page {
	if o.count() == 0 {
		return p
	}
	col := p.lines[len(p.lines)-1].width()
	p.merge(o.lines[0], col)
	p.adopt(o.lines[1:], col)
	return p
}

// adopt appends lines, moved to the right by col columns. It extends the longer of the two
// slices, so that the lines of an inner page are not copied again for each page around it.
func (p *page) adopt(lines []line, col int) {
	for i := range lines {
		lines[i].indent = min(lines[i].indent+col, mostIndent)
	}
	if len(lines) > len(p.lines) {
		p.lines = slices.Insert(lines, 0, p.lines...)
		return
	}
	p.lines = append(p.lines, lines...)
}

// indent appends another page on lines of its own, indented by two columns, and begins a new
// line after them.
func (p *page) indent(o *page) *page {
	if o.count() == 0 {
		return p
	}
	p.adopt(o.lines, indentWidth)
	return p.newLine()
}

// merge appends a line to the last one, moved to the right by col columns if the last one is
// still empty.
func (p *page) merge(l line, col int) {
	last := &p.lines[len(p.lines)-1]
	if len(last.segs) == 0 {
		last.indent = min(max(last.indent, col)+l.indent, mostIndent)
		last.segs, last.columns, last.comments = l.segs, l.columns, l.comments
		return
	}
	last.segs = append(last.segs, l.segs...)
	last.columns += l.columns
	last.comments = last.comments || l.comments
}

// width returns the number of columns of the widest line.
func (p *page) width() uint {
	w := 0
	for i := range p.lines {
		w = max(w, p.lines[i].width())
	}
	return uint(w)
}

func (l *line) width() int {
	if !l.comments {
		return l.indent + l.columns
	}
	w := l.indent
	l.each(func(s string) { w += len(s) })
	return w
}

// each calls f for the text of each segment, and for the spaces between comments and text.
func (l *line) each(f func(string)) {
	begun := false
	for i, s := range l.segs {
		if !s.comment {
			begun = begun || strings.TrimSpace(s.text) != ""
			f(s.text)
			continue
		}
		if begun {
			f(" ")
		}
		switch {
		case i < len(l.segs)-1:
			f("/* " + strings.ReplaceAll(s.text, "*/", "* /") + " */")
			begun = true
		case s.text == "":
			f("//")
		default:
			f("// " + s.text)
		}
	}
}

// bytes returns the page's text.
func (p *page) bytes() []byte {
	var out, one []byte
	for i := range p.count() {
		l := &p.lines[i]
		one = append(one[:0], strings.Repeat(" ", l.indent)...)
		l.each(func(s string) { one = append(one, s...) })
		out = append(out, strings.TrimRight(string(one), " \t\r\n\v\f")...)
		out = append(out, '\n')
	}
	return out
}

// spaces is the list of comments and line ends that are not printed yet, in source order.
type spaces struct{ list []space }

// before removes and returns those that begin at or before an offset.
func (s *spaces) before(offset int32) *spaces {
	n := 0
	for n < len(s.list) && s.list[n].start <= offset {
		n++
	}
	taken := &spaces{s.list[:n]}
	s.list = s.list[n:]
	return taken
}

// block prints comments as lines of their own, and the empty lines.
func (f *formatter) block(p *page, s *spaces) *page {
	for _, sp := range s.list {
		if sp.comment {
			p.comment(f.comment(sp))
		}
		p.newLine()
	}
	return p
}

// inline prints comments after the last line, without the empty lines.
func (f *formatter) inline(p *page, s *spaces) *page {
	for _, sp := range s.list {
		if sp.comment {
			p.comment(f.comment(sp))
		}
	}
	return p
}

func (f *formatter) comment(sp space) string {
	return strings.TrimRight(f.src.Text[sp.start:sp.end], " \t\r")
}

// lift saves comments within an expression. They are printed as lines before the statement.
func (f *formatter) lift(s *spaces) {
	for _, sp := range s.list {
		if sp.comment {
			f.lifted = append(f.lifted, f.comment(sp))
		}
	}
	s.list = nil
}

// below prints the comments that were lifted after the first since, and below them the page
// that they were in.
func (f *formatter) below(p *page, since int, what *page) *page {
	for _, c := range f.lifted[since:] {
		p.comment(c).newLine()
	}
	f.lifted = f.lifted[:since]
	return p.append(what)
}
