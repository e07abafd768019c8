package probe

import (
	"fmt"
	"strconv"
	"strings"
)

// SyntaxError says where a target's text is wrong, so that a front end can
// underline it.
type SyntaxError struct {
	// Input is the whole text.
	Input string
	// Offset is the byte at which the fault lies, from 0 to len(Input).
	Offset int
	// Msg says what is wrong there, and what would be right.
	Msg string
}

// Error reads `target "kprobe:": column 8: MSG`; columns count bytes from one.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("target %q: column %d: %s", e.Input, e.Offset+1, e.Msg)
}

// part is one piece of a target between colons.
type part struct {
	text   string // unquoted
	off    int    // where it starts in the input
	end    int    // where it ends, suffix included
	quoted bool   // it began with a quote: never a keyword or a number
	suffix string // what follows the closing quote: "+4"
}

// option is a trailing "key=value" or bare "key" word.
type option struct {
	key, value string
	off        int
}

// scanned is one target, cut into its kind, parts and options.
type scanned struct {
	input   string
	base    int // offset of this target in input
	kind    string
	parts   []part
	options []option
}

func (s *scanned) errorf(off int, format string, args ...any) error {
	return &SyntaxError{Input: s.input, Offset: off, Msg: fmt.Sprintf(format, args...)}
}

// end is the offset just after the last part.
func (s *scanned) end() int {
	if len(s.parts) == 0 {
		return s.base + len(s.kind)
	}
	return s.parts[len(s.parts)-1].end
}

// scanTarget cuts input[start:stop].
func scanTarget(input string, start, stop int) (*scanned, error) {
	for start < stop && isSpace(input[start]) {
		start++
	}
	for stop > start && isSpace(input[stop-1]) {
		stop--
	}
	s := &scanned{input: input, base: start}
	stop, err := s.scanOptions(stop)
	if err != nil {
		return nil, err
	}
	i := start
	for i < stop && input[i] != ':' {
		i++
	}
	s.kind = input[start:i]
	for i < stop {
		i++ // the colon
		p, next, err := s.scanPart(i, stop)
		if err != nil {
			return nil, err
		}
		s.parts = append(s.parts, p)
		i = next
	}
	return s, nil
}

// scanPart reads the part at i and returns the offset of the colon after it,
// or stop.
func (s *scanned) scanPart(i, stop int) (part, int, error) {
	p := part{off: i}
	if i < stop && s.input[i] == '"' {
		q, err := strconv.QuotedPrefix(s.input[i:stop])
		if err != nil {
			return p, 0, s.errorf(i, "the quote that opens here is not closed or holds a bad escape")
		}
		p.text, _ = strconv.Unquote(q)
		p.quoted = true
		i += len(q)
	}
	j := i
	for j < stop && s.input[j] != ':' {
		j++
	}
	if p.quoted {
		p.suffix = s.input[i:j]
	} else {
		p.text = s.input[i:j]
	}
	p.end = j
	return p, j, nil
}

// optionKeys are the words that may trail a target, after a blank. They are
// this package's own: bpftrace has no spelling for them.
var optionKeys = map[string]bool{
	"pid": true, "maxactive": true, "sleepable": true, "cgroup": true, "cpus": true,
}

// scanOptions takes the options off the end and returns where they begin.
// Values may be quoted.
func (s *scanned) scanOptions(stop int) (int, error) {
	start := optionsStart(s.input[s.base:stop]) + s.base
	for i := start; i < stop; {
		for i < stop && isSpace(s.input[i]) {
			i++
		}
		if i == stop {
			break
		}
		o := option{off: i}
		for i < stop && s.input[i] != '=' && !isSpace(s.input[i]) {
			i++
		}
		o.key = s.input[o.off:i]
		if i < stop && s.input[i] == '=' {
			i++
			v, n, err := s.optionValue(i, stop)
			if err != nil {
				return 0, err
			}
			o.value, i = v, n
		}
		s.options = append(s.options, o)
	}
	return start, nil
}

func (s *scanned) optionValue(i, stop int) (string, int, error) {
	if i < stop && s.input[i] == '"' {
		q, err := strconv.QuotedPrefix(s.input[i:stop])
		if err != nil {
			return "", 0, s.errorf(i, "the quote that opens here is not closed or holds a bad escape")
		}
		v, _ := strconv.Unquote(q)
		return v, i + len(q), nil
	}
	j := i
	for j < stop && !isSpace(s.input[j]) {
		j++
	}
	return s.input[i:j], j, nil
}

// optionsStart finds the first blank, outside quotes, after which only options
// follow.
func optionsStart(t string) int {
	for i := 0; i < len(t); i++ {
		if t[i] == '"' {
			q, err := strconv.QuotedPrefix(t[i:])
			if err != nil {
				return len(t)
			}
			i += len(q) - 1
			continue
		}
		if isSpace(t[i]) && onlyOptions(t[i:]) {
			return i
		}
	}
	return len(t)
}

func onlyOptions(t string) bool {
	seen := false
	for {
		t = strings.TrimLeft(t, " \t\n\r")
		if t == "" {
			return seen
		}
		n := 0
		for n < len(t) && t[n] != '=' && !isSpace(t[n]) {
			n++
		}
		if !optionKeys[t[:n]] {
			return false
		}
		seen = true
		t = t[n:]
		if strings.HasPrefix(t, `="`) {
			q, err := strconv.QuotedPrefix(t[1:])
			if err != nil {
				return true // the value's own scan reports it
			}
			t = t[1+len(q):]
			continue
		}
		for len(t) > 0 && !isSpace(t[0]) {
			t = t[1:]
		}
	}
}

// splitTargets cuts a list at its commas: those outside quotes that are
// followed by the name of a kind, since demangled names and perf events hold
// commas of their own.
func splitTargets(input string) [][2]int {
	var out [][2]int
	start := 0
	for i := 0; i < len(input); i++ {
		switch input[i] {
		case '"':
			q, err := strconv.QuotedPrefix(input[i:])
			if err != nil {
				return append(out, [2]int{start, len(input)})
			}
			i += len(q) - 1
		case ',':
			if startsKind(input[i+1:]) {
				out = append(out, [2]int{start, i})
				start = i + 1
			}
		}
	}
	return append(out, [2]int{start, len(input)})
}

func startsKind(t string) bool {
	t = strings.TrimLeft(t, " \t\n\r")
	n := 0
	for n < len(t) && isWord(t[n]) {
		n++
	}
	k, ok := kindNames[t[:n]]
	if !ok {
		return false
	}
	if k == kindBegin || k == kindEnd {
		rest := strings.TrimLeft(t[n:], " \t\n\r")
		return rest == "" || rest[0] == ','
	}
	return n < len(t) && t[n] == ':'
}

// quotePart writes a component so that scanPart reads it back: plain where
// nothing in it could be taken for syntax.
func quotePart(t string) string {
	if plain(t, false) {
		return t
	}
	return strconv.Quote(t)
}

// plain tells whether t can stand unquoted. Colons are allowed only in the
// last part of a demangled name.
func plain(t string, colons bool) bool {
	for i := 0; i < len(t); i++ {
		c := t[i]
		switch {
		case c <= ' ' || c >= 0x7f || c == '"' || c == ',' || c == '+' || c == '\\':
			return false
		case c == ':' && !colons:
			return false
		}
	}
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
