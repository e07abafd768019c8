package cdecl

import "strings"

// texts reads one or more adjacent string literals, and returns their joined value.
func (p *parser) texts() string {
	var b strings.Builder
	if p.tok.kind != isText {
		p.stop(p.tok, "a text is wanted here, not %v: write \"…\"", &p.tok)
	}
	for p.tok.kind == isText {
		for _, c := range p.unquoted(p.tok) {
			b.WriteByte(c)
		}
		p.next()
	}
	return b.String()
}

// character returns the value of 'x', or of several characters as in GCC and clang.
func (e *evaluator) character(at token) Value {
	v := e.int()
	cs := e.unquoted(at)
	switch {
	case e.err != nil:
	case len(cs) == 0 || len(cs) > 4:
		e.stop(at, "%v has %d characters: write one, or up to 4", &at, len(cs))
	case len(cs) == 1 && !e.machine.unsignedChar:
		v.Bits = uint64(int64(int8(cs[0])))
	default:
		for _, c := range cs {
			v.Bits = v.Bits<<8 | uint64(c)
		}
		v.Bits = uint64(int64(int32(v.Bits)))
	}
	return v
}

// unquoted returns the bytes between the quotes.
func (p *parser) unquoted(at token) []byte {
	s := at.text[1 : len(at.text)-1]
	var out []byte
	for len(s) > 0 {
		if s[0] != '\\' || len(s) == 1 {
			out = append(out, s[0])
			s = s[1:]
			continue
		}
		c, n, ok := escape(s)
		if !ok {
			p.stop(at, "%v has an escape that is not known here: write \\xHH", &at)
			return nil
		}
		out = append(out, c)
		s = s[n:]
	}
	return out
}

// escape decodes an escape sequence at the start of s.
func escape(s string) (c byte, n int, ok bool) {
	if i := strings.IndexByte(`abefnrtv\'"?`, s[1]); i >= 0 {
		return "\a\b\x1b\f\n\r\t\v\\'\"?"[i], 2, true
	}
	value, base, most := 0, 8, 4
	if n = 1; s[1] == 'x' {
		n, base, most = 2, 16, len(s)
	}
	begin := n
	for n < min(len(s), most) && value < 256 {
		d := strings.IndexByte("0123456789abcdefABCDEF", s[n])
		if d > 15 {
			d -= 6
		}
		if d < 0 || d >= base {
			break
		}
		value = value*base + d
		n++
	}
	return byte(value), n, n > begin && value < 256
}
