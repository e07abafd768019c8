package syntax

import "strings"

// space is a comment or the end of an empty line, which Format prints again.
type space struct {
	start, end int32
	comment    bool // else a line end
}

// peek returns the byte n after the current one, 0 after the end.
func (p *scanner) peek(n int) byte { return p.char(p.pos + n) }

func (p *scanner) char(at int) byte {
	if at < len(p.text) {
		return p.text[at]
	}
	return 0
}

func (p *scanner) end() bool { return p.pos >= len(p.text) }

// advance skips up to n bytes.
func (p *scanner) advance(n int) { p.pos = min(p.pos+n, len(p.text)) }

func hspace(c byte) bool   { return c == ' ' || c == '\t' || c == '\r' }
func anySpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func digit(c byte) bool    { return c >= '0' && c <= '9' }
func letter(c byte) bool   { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
func wordByte(c byte) bool { return letter(c) || digit(c) }

func hexDigit(c byte) bool {
	return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// word returns the end of the word that begins at a position.
func (p *scanner) word(at int) int {
	start := at
	for at < len(p.text) && wordByte(p.text[at]) {
		at++
	}
	p.looked += at - start
	return at
}

// keyword returns the word that begins here.
func (p *scanner) keyword() string { return p.text[p.pos:p.word(p.pos)] }

// layout skips spaces and comments, and records those that Format needs.
func (p *scanner) layout() {
	start := p.pos
	defer func() { p.looked += p.pos - start }()
	afterComment := false
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case hspace(c):
			p.pos++
		case c == '\n':
			at := p.pos
			p.pos++
			if !afterComment && !p.endsStatement(at) {
				p.keep(at, p.pos, false)
			}
			afterComment = false
		case c == '/' && p.peek(1) == '/':
			p.lineComment()
			afterComment = true
		case c == '/' && p.peek(1) == '*':
			p.blockComment()
			afterComment = true
		default:
			return
		}
	}
}

// endsStatement reports whether a line ends with a character after which Format begins a new
// line anyway.
func (p *scanner) endsStatement(at int) bool {
	for at--; at >= 0 && hspace(p.text[at]); at-- {
		p.looked++
	}
	return at >= 0 && (p.text[at] == ';' || p.text[at] == '{' || p.text[at] == '}')
}

// keep records a comment or a line end, unless it was recorded before.
func (p *scanner) keep(start, end int, comment bool) {
	if start < p.kept {
		return
	}
	p.kept = max(end, start+1)
	p.space = append(p.space, space{int32(start), int32(end), comment})
}

func (p *scanner) lineComment() {
	p.advance(2)
	if p.peek(0) == ' ' {
		p.pos++
	}
	start := p.pos
	if i := strings.IndexByte(p.text[p.pos:], '\n'); i >= 0 {
		p.pos += i
	} else {
		p.pos = len(p.text)
	}
	p.keep(start, p.pos, true)
}

// blockComment records each line separately, without the stars before it.
func (p *scanner) blockComment() {
	p.advance(2)
	if p.peek(0) == ' ' {
		p.pos++
	}
	for !p.end() {
		start := p.pos
		for !p.end() && p.text[p.pos] != '\n' && !p.closes() {
			p.pos++
		}
		if p.pos > start {
			p.keep(start, p.pos, true)
		}
		if p.closes() {
			p.advance(2)
			return
		}
		p.advance(1)
		p.commentIndent()
	}
}

func (p *scanner) closes() bool { return p.peek(0) == '*' && p.peek(1) == '/' }

// commentIndent skips the spaces and stars before the text of a further line.
func (p *scanner) commentIndent() {
	for !p.end() && hspace(p.text[p.pos]) {
		p.pos++
	}
	if p.closes() {
		return
	}
	stars := false
	for p.peek(0) == '*' && !p.closes() {
		stars = true
		p.pos++
	}
	if stars && p.peek(0) == ' ' {
		p.pos++
	}
	if p.peek(0) == '\n' || p.closes() {
		p.keep(p.pos, p.pos, true) // an empty line of the comment
	}
}

// skip returns the end of the spaces and comments that begin at a position.
func (p *scanner) skip(at int) int {
	end := p.skipped(at)
	p.looked += end - at
	return end
}

func (p *scanner) skipped(at int) int {
	for at < len(p.text) {
		switch c := p.text[at]; {
		case anySpace(c):
			at++
		case c == '/' && p.char(at+1) == '/':
			i := strings.IndexByte(p.text[at:], '\n')
			if i < 0 {
				return len(p.text)
			}
			at += i
		case c == '/' && p.char(at+1) == '*':
			i := strings.Index(p.text[at+2:], "*/")
			if i < 0 {
				return len(p.text)
			}
			at += i + 4
		default:
			return at
		}
	}
	return at
}

// balanced returns the position after the bracket that closes the one at at, or the end of the
// text if none does.
func (p *scanner) balanced(at int, open, closing byte) (after int, ok bool) {
	after, ok = balanced(p.text, at, open, closing)
	p.looked += after - at
	return after, ok
}

func balanced(text string, at int, open, closing byte) (after int, ok bool) {
	depth := 0
	for ; at < len(text); at++ {
		switch text[at] {
		case open:
			depth++
		case closing:
			if depth--; depth == 0 {
				return at + 1, true
			}
		}
	}
	return at, false
}

// match skips spaces and then the byte c. It reports whether c was there.
func (p *scanner) match(c byte) bool {
	p.layout()
	if p.peek(0) != c || p.end() {
		return false
	}
	p.pos++
	return true
}

// matchWord skips spaces and then the word s. It reports whether s was there.
func (p *scanner) matchWord(s string) bool {
	p.layout()
	if !p.isWord(p.pos, s) {
		return false
	}
	p.pos += len(s)
	return true
}

// nextWord reports whether the next word is s.
func (p *scanner) nextWord(s string) bool { return p.isWord(p.skip(p.pos), s) }

func (p *scanner) isWord(at int, s string) bool {
	return strings.HasPrefix(p.text[at:], s) && !wordByte(p.char(at+len(s)))
}

func (p *scanner) expect(c byte) bool {
	if p.match(c) {
		return true
	}
	p.fail("expected '" + string(c) + "'")
	return false
}

func (p *scanner) expectWord(s string) bool {
	if p.matchWord(s) {
		return true
	}
	p.fail("expected '" + s + "'")
	return false
}

// identifier scans a name. If there is none, it returns "" and reports orElse, unless that is
// "".
func (p *scanner) identifier(orElse string) string {
	p.layout()
	if !letter(p.peek(0)) {
		if orElse != "" {
			p.fail(orElse)
		}
		return ""
	}
	start := p.pos
	p.pos = p.word(p.pos)
	return p.text[start:p.pos]
}

// variableName scans the name of a variable, whose "$" is here.
func (p *scanner) variableName() string {
	if !letter(p.peek(1)) {
		p.fail("expected identifier after '$'")
		return ""
	}
	start := p.pos
	p.pos = p.word(p.pos + 1)
	return p.text[start:p.pos]
}

// mapName scans the name of a map, which may be "@" alone.
func (p *scanner) mapName() string {
	start := p.pos
	p.pos++
	if letter(p.peek(0)) {
		p.pos = p.word(p.pos)
	}
	return p.text[start:p.pos]
}

// number scans a number and returns it as written. It reports all errors in it.
func (p *scanner) number() string {
	p.layout()
	start := p.pos
	if p.peek(0) == '0' && (p.peek(1) == 'x' || p.peek(1) == 'X') {
		p.advance(2)
		p.digits(start, hexDigit)
		return p.text[start:p.pos]
	}
	p.digits(start, digit)
	if c := p.peek(0); c == 'e' || c == 'E' {
		p.pos++
		p.digits(start, digit)
	}
	p.suffix()
	text := p.text[start:p.pos]
	if letter(p.peek(0)) {
		bad := p.pos
		p.pos = p.word(p.pos)
		p.failAt(bad, p.pos, "invalid integer suffix '"+p.text[bad:p.pos]+"'")
	}
	return text
}

func (p *scanner) digits(start int, is func(byte) bool) {
	for !p.end() && (is(p.text[p.pos]) || p.text[p.pos] == '_') {
		p.pos++
	}
	if p.pos > start && p.text[p.pos-1] == '_' {
		p.failAt(p.pos-1, p.pos, "trailing underscore in integer literal")
	}
}

// suffix skips ns, us, ms, s, m, h, d, or u, l and ll.
func (p *scanner) suffix() {
	long := func() {
		for i := 0; i < 2 && (p.peek(0) == 'l' || p.peek(0) == 'L'); i++ {
			p.pos++
		}
	}
	switch c := p.peek(0); {
	case (c == 'n' || c == 'u' || c == 'm') && p.peek(1) == 's':
		p.pos += 2
	case c == 's' || c == 'm' || c == 'h' || c == 'd':
		p.pos++
	case c == 'u' || c == 'U':
		p.pos++
		long()
	case c == 'l' || c == 'L':
		long()
	}
}

// str scans a string, whose opening quote is here, and returns its value.
func (p *scanner) str() string {
	p.pos++
	if i := strings.IndexAny(p.text[p.pos:], "\"\\\n"); i >= 0 && p.text[p.pos+i] == '"' {
		s := p.text[p.pos : p.pos+i]
		p.pos += i + 1
		return s
	}
	var b strings.Builder
	for !p.end() && p.text[p.pos] != '"' {
		switch c := p.text[p.pos]; c {
		case '\n':
			p.fail("unterminated string")
			return b.String()
		case '\\':
			start := p.pos
			p.pos++
			if p.end() {
				p.fail("unterminated string")
				return b.String()
			}
			p.escape(&b, start)
		default:
			b.WriteByte(c)
			p.pos++
		}
	}
	if p.end() {
		p.fail("unterminated string")
	}
	p.advance(1)
	return b.String()
}

// escape scans an escape sequence after its backslash, and writes its value to b.
func (p *scanner) escape(b *strings.Builder, start int) {
	const plain, means = `ntr"\`, "\n\t\r\"\\"
	c := p.text[p.pos]
	switch i := strings.IndexByte(plain, c); {
	case i >= 0:
		b.WriteByte(means[i])
		p.pos++
	case c >= '0' && c <= '7':
		value, from := 0, p.pos
		for p.pos < from+3 && p.peek(0) >= '0' && p.peek(0) <= '7' {
			value = value*8 + int(p.peek(0)-'0')
			p.pos++
		}
		if value > 255 {
			p.failAt(start, p.pos, "octal escape sequence out of range '"+p.text[start:p.pos]+"'")
		}
		b.WriteByte(byte(value))
	case c == 'x' || c == 'X':
		p.pos++
		value, from := 0, p.pos
		for p.pos < from+2 && hexDigit(p.peek(0)) {
			value = value*16 + hexValue(p.peek(0))
			p.pos++
		}
		if p.pos == from {
			p.fail("invalid hex escape sequence")
			return
		}
		b.WriteByte(byte(value))
	default:
		p.fail("invalid escape character '" + p.text[start:p.pos+1] + "'")
		p.pos++
	}
}

func hexValue(c byte) int {
	if digit(c) {
		return int(c - '0')
	}
	return int(c|0x20-'a') + 10
}
