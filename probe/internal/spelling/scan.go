package spelling

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

// Part is one piece of a target between colons.
type Part struct {
	Text   string // unquoted
	Off    int    // where it starts in the input
	End    int    // where it ends, suffix included
	Quoted bool   // it began with a quote: never a keyword or a number
	Suffix string // what follows the closing quote: "+4"
}

// Option is a trailing "key=value" or bare "key" word.
type Option struct {
	Key, Value string
	Off        int // where it starts in the input
}

// Scanned is one target, cut into its kind, parts and options.
type Scanned struct {
	Input   string
	Base    int // offset of this target in Input
	Kind    string
	Parts   []Part
	Options []Option
}

// Errorf is a *SyntaxError at an offset of the input.
func (s *Scanned) Errorf(off int, format string, args ...any) error {
	return &SyntaxError{Input: s.Input, Offset: off, Msg: fmt.Sprintf(format, args...)}
}

// Last is the offset just after the last part.
func (s *Scanned) Last() int {
	if len(s.Parts) == 0 {
		return s.Base + len(s.Kind)
	}
	return s.Parts[len(s.Parts)-1].End
}

// Words are those that mean something in the text of a target.
type Words struct {
	// Kind says whether a target may begin with a word, and whether it is then the
	// whole target.
	Kind func(word string) (known, alone bool)
	// Option says whether a word may trail a target, after a blank: Key of an Option.
	Option func(word string) bool
}

// Scan cuts the targets of a list into their pieces: at the commas outside of quotes that
// are followed by the name of a kind, since demangled names and perf events hold commas
// of their own. It stops at the first that is wrong, or for which build fails.
func (w *Words) Scan(input string, build func(*Scanned) error) error {
	for _, r := range w.split(input) {
		s, err := w.scan(input, r[0], r[1])
		if err != nil {
			return err
		}
		if err := build(s); err != nil {
			return err
		}
	}
	return nil
}

// scan cuts input[start:stop].
func (w *Words) scan(input string, start, stop int) (*Scanned, error) {
	for start < stop && isSpace(input[start]) {
		start++
	}
	for stop > start && isSpace(input[stop-1]) {
		stop--
	}
	s := &Scanned{Input: input, Base: start}
	stop, err := s.scanOptions(w, stop)
	if err != nil {
		return nil, err
	}
	i := start
	for i < stop && input[i] != ':' {
		i++
	}
	s.Kind = input[start:i]
	for i < stop {
		i++ // the colon
		p, next, err := s.scanPart(i, stop)
		if err != nil {
			return nil, err
		}
		s.Parts = append(s.Parts, p)
		i = next
	}
	return s, nil
}

// scanPart reads the part at i and returns the offset of the colon after it,
// or stop.
func (s *Scanned) scanPart(i, stop int) (Part, int, error) {
	p := Part{Off: i}
	if i < stop && s.Input[i] == '"' {
		q, err := strconv.QuotedPrefix(s.Input[i:stop])
		if err != nil {
			return p, 0, s.Errorf(i, "the quote that opens here is not closed or holds a bad escape")
		}
		p.Text, _ = strconv.Unquote(q)
		p.Quoted = true
		i += len(q)
	}
	j := i
	for j < stop && s.Input[j] != ':' {
		j++
	}
	if p.Quoted {
		p.Suffix = s.Input[i:j]
	} else {
		p.Text = s.Input[i:j]
	}
	p.End = j
	return p, j, nil
}

// scanOptions takes the options off the end and returns where they begin.
// Values may be quoted.
func (s *Scanned) scanOptions(w *Words, stop int) (int, error) {
	start := w.optionsStart(s.Input[s.Base:stop]) + s.Base
	for i := start; i < stop; {
		for i < stop && isSpace(s.Input[i]) {
			i++
		}
		if i == stop {
			break
		}
		o := Option{Off: i}
		for i < stop && s.Input[i] != '=' && !isSpace(s.Input[i]) {
			i++
		}
		o.Key = s.Input[o.Off:i]
		if i < stop && s.Input[i] == '=' {
			i++
			v, n, err := s.optionValue(i, stop)
			if err != nil {
				return 0, err
			}
			o.Value, i = v, n
		}
		s.Options = append(s.Options, o)
	}
	return start, nil
}

func (s *Scanned) optionValue(i, stop int) (string, int, error) {
	if i < stop && s.Input[i] == '"' {
		q, err := strconv.QuotedPrefix(s.Input[i:stop])
		if err != nil {
			return "", 0, s.Errorf(i, "the quote that opens here is not closed or holds a bad escape")
		}
		v, _ := strconv.Unquote(q)
		return v, i + len(q), nil
	}
	j := i
	for j < stop && !isSpace(s.Input[j]) {
		j++
	}
	return s.Input[i:j], j, nil
}

// optionsStart finds the first blank, outside quotes, after which only options
// follow.
func (w *Words) optionsStart(t string) int {
	for i := 0; i < len(t); i++ {
		if t[i] == '"' {
			q, err := strconv.QuotedPrefix(t[i:])
			if err != nil {
				return len(t)
			}
			i += len(q) - 1
			continue
		}
		if isSpace(t[i]) && w.onlyOptions(t[i:]) {
			return i
		}
	}
	return len(t)
}

func (w *Words) onlyOptions(t string) bool {
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
		if !w.Option(t[:n]) {
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

// split finds where the targets of a list begin and end.
func (w *Words) split(input string) [][2]int {
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
			if w.startsKind(input[i+1:]) {
				out = append(out, [2]int{start, i})
				start = i + 1
			}
		}
	}
	return append(out, [2]int{start, len(input)})
}

func (w *Words) startsKind(t string) bool {
	t = strings.TrimLeft(t, " \t\n\r")
	n := 0
	for n < len(t) && IsWord(t[n]) {
		n++
	}
	known, alone := w.Kind(t[:n])
	if !known {
		return false
	}
	if alone {
		rest := strings.TrimLeft(t[n:], " \t\n\r")
		return rest == "" || rest[0] == ','
	}
	return n < len(t) && t[n] == ':'
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// IsWord tells bytes of words: letters, digits and the underscore.
func IsWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
