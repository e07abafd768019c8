package syntax

import (
	"iter"
	"slices"
	"strings"
)

// mostIndent is the largest indentation in columns, so that deeply nested text does not
// consist mostly of spaces.
const mostIndent = 200

// page is formatted text: lines of segments. newPage returns a page with one empty line.
type page struct {
	lines []*line
	one   line // the line of most pages, and its place in lines
	at    [1]*line
}

// line has its first segments in front, in reverse order, so that text before a long line does
// not move it.
type line struct {
	indent      int
	front, segs []segment
	columns     int  // of text, and of comments between stars with a space before each
	begun       bool // some text or comment is not blank
	lead        bool // what begins is a comment, which has no space before it
}

type segment struct {
	text    string
	comment bool // printed after slashes at the end of a line, else between stars
}

// columns returns the width of a segment that is not the last of its line.
func (s *segment) columns() int {
	if !s.comment {
		return len(s.text)
	}
	return len(" /*  */") + len(s.text) + strings.Count(s.text, "*/")
}

// add appends a segment.
func (l *line) add(s segment) {
	if !l.begun && (s.comment || strings.TrimSpace(s.text) != "") {
		l.begun, l.lead = true, s.comment
	}
	l.segs = append(l.segs, s)
	l.columns += s.columns()
}

// all returns the segments in order.
func (l *line) all() iter.Seq2[int, *segment] {
	return func(yield func(int, *segment) bool) {
		for i := range l.size() {
			if !yield(i, l.at(i)) {
				return
			}
		}
	}
}

func (l *line) size() int { return len(l.front) + len(l.segs) }

func (l *line) at(i int) *segment {
	if n := len(l.front); i < n {
		return &l.front[n-1-i]
	}
	return &l.segs[i-len(l.front)]
}

func newPage() *page {
	p := &page{}
	p.at[0] = &p.one
	p.lines = p.at[:]
	return p
}

func text(parts ...string) *page { return newPage().text(parts...) }

// text appends to the last line.
func (p *page) text(parts ...string) *page {
	l := p.lines[len(p.lines)-1]
	for _, s := range parts {
		l.add(segment{text: s})
	}
	return p
}

func (p *page) comment(s string) *page {
	p.lines[len(p.lines)-1].add(segment{s, true})
	return p
}

func (p *page) newLine() *page {
	p.lines = append(p.lines, &line{})
	return p
}

func (l *line) empty() bool { return l.indent == 0 && l.size() == 0 }

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
	p.merge(*o.lines[0], col)
	p.adopt(o.lines[1:], col)
	return p
}

// adopt appends lines, moved to the right by col columns. It extends the longer of the two
// slices, so that the lines of an inner page are not copied again for each page around it.
func (p *page) adopt(lines []*line, col int) {
	for _, l := range lines {
		l.indent = min(l.indent+col, mostIndent)
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
// still empty. It extends the longer of the two.
func (p *page) merge(l line, col int) {
	last := p.lines[len(p.lines)-1]
	if last.size() == 0 {
		l.indent = min(max(last.indent, col)+l.indent, mostIndent)
		*last = l
		return
	}
	joined := *last
	if l.size() > last.size() {
		joined.front, joined.segs = l.front, l.segs
		for i := last.size() - 1; i >= 0; i-- {
			joined.front = append(joined.front, *last.at(i))
		}
	} else {
		for _, s := range l.all() {
			joined.segs = append(joined.segs, *s)
		}
	}
	joined.columns += l.columns
	if !last.begun {
		joined.begun, joined.lead = l.begun, l.lead
	}
	*last = joined
}

// width returns the number of columns of the widest line.
func (p *page) width() uint {
	w := 0
	for i := range p.lines {
		w = max(w, p.lines[i].width())
	}
	return uint(w)
}

// width returns the number of columns that each prints. It takes no time: each expression asks
// for it.
func (l *line) width() int {
	w := l.indent + l.columns
	if l.lead {
		w--
	}
	if n := l.size(); n > 0 {
		if s := l.at(n - 1); s.comment {
			w -= s.columns() - len(" //") // between slashes, as it is the last
			if s.text != "" {
				w += len(" ") + len(s.text)
			}
		}
	}
	return w
}

// each calls f for the text of each segment, and for the spaces between comments and text.
func (l *line) each(f func(string)) {
	begun := false
	for i, s := range l.all() {
		if !s.comment {
			begun = begun || strings.TrimSpace(s.text) != ""
			f(s.text)
			continue
		}
		if begun {
			f(" ")
		}
		switch {
		case i < l.size()-1:
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
		l := p.lines[i]
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
	return strings.TrimRight(f.src.Content[sp.start:sp.end], " \t\r")
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
