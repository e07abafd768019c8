package cdecl

import (
	"fmt"
	"strings"
)

// Pos is a place in a text: of an error, a type, a constant.
type Pos struct {
	File         string // what Parse was told, or what an include is called
	Line, Column int    // from 1; columns are bytes
}

// String is FILE:LINE:COLUMN.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

type kind uint8

const (
	isEnd    kind = iota
	isEOL         // the end of a directive
	isBad         // what is no token: text says why
	isWord        // an identifier or keyword
	isNumber      // as C's preprocessor has them: 1.5e+3 is one
	isText        // "…"
	isChar        // '…'
	isMark        // an operator, or any other byte
)

type token struct {
	kind  kind
	first bool // of its line
	space bool // white space comes before it
	text  string
	pos   Pos
}

// is tells an operator or a word by its text.
func (t *token) is(s string) bool { return t.kind >= isWord && t.text == s }

// String is the token as errors quote it.
func (t *token) String() string {
	switch t.kind {
	case isEnd:
		return "the end of the text"
	case isEOL:
		return "the end of the line"
	}
	return quote(t.text)
}

// quote shortens what errors quote: a token may be as long as the text.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Sprintf("%q", s)
}

// lexer makes tokens of one text. A copy of it looks ahead.
type lexer struct {
	file   string
	text   string // with continued lines joined
	joins  []int  // where in text a line was continued
	off    int
	line   int
	origin int // the offset that would be column 1
	first  bool
	conds  int // how many #if were open when the text began
}

func newLexer(file, s string, line, column int) *lexer {
	l := &lexer{file: file, line: max(line, 1), origin: 1 - max(column, 1), first: true}
	l.text, l.joins = join(s)
	return l
}

// join removes the backslashes before line ends, and tells where they were. What is
// left has no token cut in two.
func join(s string) (joined string, joins []int) {
	if !strings.Contains(s, "\\\n") && !strings.Contains(s, "\\\r\n") {
		return s, nil
	}
	var b strings.Builder
	b.Grow(len(s))
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			b.WriteString(s)
			return b.String(), joins
		}
		b.WriteString(s[:i])
		rest := s[i+1:]
		after, ok := strings.CutPrefix(rest, "\n")
		if !ok {
			after, ok = strings.CutPrefix(rest, "\r\n")
		}
		if !ok {
			b.WriteByte('\\')
			s = rest
			continue
		}
		joins = append(joins, b.Len())
		s = after
	}
}

// to moves to an offset on the same line, or past joins on it.
func (l *lexer) to(off int) {
	for len(l.joins) > 0 && l.joins[0] <= off {
		l.line++
		l.origin = l.joins[0]
		l.joins = l.joins[1:]
	}
	l.off = off
}

func (l *lexer) newline() {
	l.to(l.off + 1)
	l.line++
	l.origin = l.off
	l.first = true
}

// next is the next token. Inside a directive the end of the line is one.
func (l *lexer) next(directive bool) token {
	t := token{space: l.off == 0}
	if !l.blank(&t, directive) {
		return t
	}
	l.to(l.off)
	t.first, l.first = l.first, false
	t.pos = Pos{l.file, l.line, l.off - l.origin + 1}
	if l.off == len(l.text) {
		t.kind = isEnd
		return t
	}
	begin := l.off
	l.to(l.scan(&t))
	if t.kind != isBad {
		t.text = l.text[begin:l.off]
	}
	return t
}

// blank skips white space and comments. It is false if that makes t a token.
func (l *lexer) blank(t *token, directive bool) bool {
	for l.off < len(l.text) {
		c, rest := l.text[l.off], l.text[l.off:]
		switch {
		case c == '\n' && directive:
			l.to(l.off)
			t.kind, t.pos = isEOL, Pos{l.file, l.line, l.off - l.origin + 1}
			return false
		case c == '\n':
			l.newline()
		case c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f':
			l.to(l.off + 1)
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.to(l.off + n)
		case strings.HasPrefix(rest, "/*"):
			if !l.comment(t) {
				return false
			}
		default:
			return true
		}
		t.space = true
	}
	return true
}

func (l *lexer) comment(t *token) bool {
	n := strings.Index(l.text[l.off+2:], "*/")
	if n < 0 {
		l.to(l.off)
		t.kind, t.text = isBad, `a comment begins here that has no end: write "*/" where it ends`
		t.pos = Pos{l.file, l.line, l.off - l.origin + 1}
		l.off = len(l.text)
		return false
	}
	first := l.first
	for end := l.off + 2 + n + 2; l.off < end; {
		nl := strings.IndexByte(l.text[l.off:end], '\n')
		if nl < 0 {
			l.to(end)
			break
		}
		l.off += nl
		l.newline()
	}
	l.first = first // a comment is a space, however long
	return true
}

// marks are the operators of more than one byte, the longest first.
var marks = [...]string{
	"...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "##",
	"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "::",
}

// scan finds the kind and the end of the token at off.
func (l *lexer) scan(t *token) (end int) {
	s, c := l.text[l.off:], l.text[l.off]
	n := 1
	switch {
	case isLetter(c):
		t.kind = isWord
		for n < len(s) && (isLetter(s[n]) || isDigit(s[n])) {
			n++
		}
	case isDigit(c) || c == '.' && len(s) > 1 && isDigit(s[1]):
		t.kind = isNumber
		for n < len(s) && (isLetter(s[n]) || isDigit(s[n]) || s[n] == '.' || sign(s, n)) {
			n++
		}
	case c == '"' || c == '\'':
		return l.off + quoted(t, s)
	default:
		t.kind = isMark
		for _, m := range marks {
			if strings.HasPrefix(s, m) {
				n = len(m)
				break
			}
		}
	}
	return l.off + n
}

// sign tells the sign of an exponent: 1e+3, 0x1p-3.
func sign(s string, n int) bool {
	return (s[n] == '+' || s[n] == '-') && strings.IndexByte("eEpP", s[n-1]) >= 0 &&
		(s[n-1] == 'p' || s[n-1] == 'P' || len(s) < 2 || s[1] != 'x' && s[1] != 'X')
}

// quoted is the length of the text or character at the start of s.
func quoted(t *token, s string) int {
	for n := 1; n < len(s) && s[n] != '\n'; n++ {
		switch s[n] {
		case '\\':
			n++
		case s[0]:
			t.kind = isText
			if s[0] == '\'' {
				t.kind = isChar
			}
			return n + 1
		}
	}
	n := strings.IndexByte(s, '\n')
	if n < 0 {
		n = len(s)
	}
	t.kind = isBad
	t.text = fmt.Sprintf("%c begins what does not end on its line: write another %[1]c where it ends",
		s[0])
	return n
}

func isLetter(c byte) bool {
	return c == '_' || c == '$' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
