package spelling

import (
	"fmt"
	"strconv"
	"strings"
)

// SyntaxError is the error for a mistake in a target's text. It contains the place, so that a
// front end can underline it.
type SyntaxError struct {
	// Input is the whole text.
	Input string
	// Offset is the offset of the mistake in bytes, from 0 to len(Input).
	Offset int
	// Msg describes the mistake and what is expected instead.
	Msg string
}

// Error returns `target "kprobe:": column 8: MSG`. Columns count bytes from one.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("target %q: column %d: %s", e.Input, e.Offset+1, e.Msg)
}

// Part is one piece of a target, between colons.
type Part struct {
	Text   string // unquoted
	Off    int    // offset in the input
	End    int    // offset of its end, suffix included
	Quoted bool   // it began with a quote: it is no keyword and no number
	Suffix string // text after the closing quote: "+4"
}

// Option is a trailing "key=value" or bare "key" word.
type Option struct {
	Key, Value string
	Off        int // offset in the input
}

// Scanned is one target, split into its kind, parts and options.
type Scanned struct {
	Input   string
	Base    int // offset of this target in Input
	Kind    string
	Parts   []Part
	Options []Option
}

// Errorf returns a *SyntaxError at an offset in the input.
func (s *Scanned) Errorf(off int, format string, args ...any) error {
	return &SyntaxError{Input: s.Input, Offset: off, Msg: fmt.Sprintf(format, args...)}
}

// Last returns the offset just after the last part.
func (s *Scanned) Last() int {
	if len(s.Parts) == 0 {
		return s.Base + len(s.Kind)
	}
	return s.Parts[len(s.Parts)-1].End
}

// Words defines the words that are part of the syntax of targets.
type Words struct {
	// Kind reports whether a target may begin with a word, and whether the word is then the
	// whole target.
	Kind func(word string) (known, alone bool)
	// Option reports whether a word may follow a target, after a blank: it is the Key of an
	// Option.
	Option func(word string) bool
}

// Scan splits a list into targets, and each target into its pieces, and calls build for each.
// It splits at commas outside of quotes that the name of a kind follows, because demangled
// names and perf events contain commas too. It stops at the first target that is malformed or
// for which build fails.
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

// scan splits the target input[start:stop].
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

// scanPart parses the part at i and returns the offset of the colon after it, or stop.
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

// scanOptions parses the options at the end and returns the offset at which they begin. Values
// may be quoted.
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

// optionsStart returns the offset of the first blank, outside of quotes, after which only
// options follow.
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
				return true // scanOptions reports it
			}
			t = t[1+len(q):]
			continue
		}
		for len(t) > 0 && !isSpace(t[0]) {
			t = t[1:]
		}
	}
}

// split returns the offsets at which the targets of a list begin and end.
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

// IsWord reports whether c can be part of a word: a letter, a digit or an underscore.
func IsWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
