package printf

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Format is a format whose conversions are parsed, for printing many times.
type Format struct {
	texts []string // before, between and behind the conversions
	specs []spec
}

// spec is how a conversion prints.
type spec struct {
	left, plus, base, zeros bool
	width                   int
	length, verb            string
}

// Parse parses a format.
func Parse(format string) *Format {
	f, at, text := &Format{}, 0, strings.Builder{}
	for _, c := range all(format) {
		text.WriteString(format[at:c.Start])
		at = c.End
		if c.Spec == "%" {
			text.WriteByte('%')
			continue
		}
		f.texts = append(f.texts, text.String())
		text.Reset()
		f.specs = append(f.specs, parseSpec(format[c.Start+1:c.End-len(c.Spec)], c.Spec))
	}
	text.WriteString(format[at:])
	f.texts = append(f.texts, text.String())
	return f
}

// parseSpec parses what is between the % and the conversion's letters. Precisions have no effect
// on what scripts can print.
func parseSpec(s, verb string) spec {
	p := spec{verb: verb}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '-':
			p.left = true
		case c == '+':
			p.plus = true
		case c == '#':
			p.base = true
		case c == '0':
			p.zeros = true
		case c >= '1' && c <= '9':
			j := width(s, i)
			p.width, _ = strconv.Atoi(s[i:min(j, i+6)])
			i = j - 1
		case c == '.':
			i = width(s, i+1) - 1
		case c != ' ' && c != '*':
			p.length = s[i:]
			return p
		}
	}
	return p
}

// Buffer is bytes, as buf() returns them.
type Buffer []byte

// Number is a value that prints as text and has a number, such as an enumerator.
type Number interface {
	fmt.Stringer
	Uint64() uint64
}

// Append appends the text of values: int64, uint64, bool, string, Buffer, Number, or others that
// have a String method. There must be as many as there are conversions. What a conversion cannot
// print is said in its place, as bpftrace does.
func (f *Format) Append(b []byte, values []any) []byte {
	for i, s := range f.specs {
		b = append(b, f.texts[i]...)
		if i < len(values) {
			b = s.append(b, values[i])
		}
	}
	return append(b, f.texts[len(f.specs)]...)
}

func (s spec) append(b []byte, v any) []byte {
	text := ""
	switch s.verb {
	case "d", "i", "u", "o", "x", "X", "c", "p":
		n, ok := Bits(v)
		if !ok {
			return fmt.Appendf(b, "!{invalid integer conversion: %v}", v)
		}
		text = s.integer(n)
	case "gr":
		n, ok := Bits(v)
		if !ok {
			return fmt.Appendf(b, "!{invalid GFP flags conversion: %v}", v)
		}
		text = allocationFlags(n)
	case "r", "rx", "rh":
		if data, ok := v.(Buffer); ok {
			text = data.format(s.verb == "r", s.verb != "rh")
			break
		}
		text = Text(v)
	default:
		text = Text(v)
	}
	return s.pad(b, text)
}

// pad pads to the width, with zeros also in front of a sign, and behind what is aligned left, as
// bpftrace does.
func (s spec) pad(b []byte, text string) []byte {
	fill := []byte(" ")
	if s.zeros {
		fill = []byte("0")
	}
	fill = bytes.Repeat(fill, max(s.width-len(text), 0))
	if s.left {
		return append(append(b, text...), fill...)
	}
	return append(append(b, fill...), text...)
}

// Bits returns the bits of a value that has a number.
func Bits(v any) (uint64, bool) {
	switch v := v.(type) {
	case int64:
		return uint64(v), true
	case uint64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case Number:
		return v.Uint64(), true
	}
	return 0, false
}

// integer formats a number in the width that the length modifier gives it: that of C's int if
// there is none.
func (s spec) integer(n uint64) string {
	bits := 32
	switch s.length {
	case "hh":
		bits = 8
	case "h":
		bits = 16
	case "l", "ll", "j", "z", "t":
		bits = 64
	}
	unsigned := n << (64 - bits) >> (64 - bits)
	switch s.verb {
	case "c":
		return string([]byte{byte(n)})
	case "p":
		if n == 0 {
			return "0"
		}
		return "0x" + strconv.FormatUint(n, 16)
	case "u":
		return strconv.FormatUint(unsigned, 10)
	case "o":
		return s.prefix("0", strconv.FormatUint(unsigned, 8))
	case "x":
		return s.prefix("0x", strconv.FormatUint(unsigned, 16))
	case "X":
		return s.prefix("0X", strings.ToUpper(strconv.FormatUint(unsigned, 16)))
	}
	text := strconv.FormatInt(int64(n<<(64-bits))>>(64-bits), 10)
	if s.plus && text[0] != '-' {
		text = "+" + text
	}
	return text
}

// prefix is C's alternate form: zero has none.
func (s spec) prefix(prefix, text string) string {
	if s.base && text != "0" {
		return prefix + text
	}
	return text
}

// Text returns the text of a value as %s and print() have it.
func Text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case bool:
		return strconv.FormatBool(v)
	case nil: // what cannot be printed
		return "null"
	}
	return fmt.Sprint(v)
}

// String returns the bytes as bpftrace prints a buffer: printable ASCII as it is.
func (d Buffer) String() string { return d.format(true, true) }

// format returns each byte as two hexadecimal digits: behind \x if escaped, else with blanks in
// between. With ascii, bytes that are printable are as they are.
func (d Buffer) format(ascii, escaped bool) string {
	var b []byte
	for i, c := range d {
		switch {
		case ascii && c >= 0x20 && c <= 0x7e:
			b = append(b, c)
		case escaped:
			b = fmt.Appendf(b, `\x%02x`, c)
		default:
			if i > 0 {
				b = append(b, ' ')
			}
			b = fmt.Appendf(b, "%02x", c)
		}
	}
	return string(b)
}
