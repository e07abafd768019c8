package cdecl

import (
	"fmt"
	"strings"
)

// Pos is a position in a text.
type Pos struct {
	File         string // the name given to Parse, or an include's
	Line, Column int    // from 1; columns are bytes
}

// String returns FILE:LINE:COLUMN.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

type kind uint8

const (
	isEnd    kind = iota
	isEOL         // the end of a directive
	isBad         // no token: text is the error message
	isWord        // an identifier or keyword
	isNumber      // a preprocessing number, such as 1.5e+3
	isText        // "…"
	isChar        // '…'
	isMark        // an operator, or any other byte
)

type token struct {
	kind  kind
	first bool // first on its line
	space bool // white space comes before it
	text  string
	pos   Pos
}

// is reports whether the token is an operator or word with the given text.
func (t *token) is(s string) bool { return t.kind >= isWord && t.text == s }

// String returns the token as errors quote it.
func (t *token) String() string {
	switch t.kind {
	case isEnd:
		return "the end of the text"
	case isEOL:
		return "the end of the line"
	}
	return quote(t.text)
}

// quote quotes s for an error. It shortens s, because a token may be as long as the text.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Sprintf("%q", s)
}

// lexer splits one text into tokens. A copy of it can look ahead.
type lexer struct {
	file   string
	text   string // with continued lines joined
	joins  []int  // offsets in text at which a line was continued
	off    int
	line   int
	origin int // the offset of column 1
	first  bool
	conds  int // the number of #if that were open when the text began
}

func newLexer(file, s string, line, column int) *lexer {
	l := &lexer{file: file, line: max(line, 1), origin: 1 - max(column, 1), first: true}
	l.text, l.joins = join(s)
	return l
}

// join removes the backslashes before line ends, and returns their offsets. No token is split
// in the result.
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

// to moves to an offset on the same line, or beyond joins on it.
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

// next returns the next token. In a directive, the end of the line is a token.
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

// blank skips white space and comments. It returns false if that sets t to a token.
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
	l.first = first // a comment counts as a space, even across lines
	return true
}

// marks lists the operators of more than one byte, the longest first.
var marks = [...]string{
	"...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "##",
	"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "::",
}

// scan determines the kind and the end of the token at off.
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

// sign reports whether s[n] is the sign of an exponent: 1e+3, 0x1p-3.
func sign(s string, n int) bool {
	return (s[n] == '+' || s[n] == '-') && strings.IndexByte("eEpP", s[n-1]) >= 0 &&
		(s[n-1] == 'p' || s[n-1] == 'P' || len(s) < 2 || s[1] != 'x' && s[1] != 'X')
}

// quoted returns the length of the string or character literal at the start of s.
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
