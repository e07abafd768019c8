package syntax

import (
	"fmt"
	"sort"
	"strings"
)

// Source is a text that contains nodes: a script, or the expansion of a #define. It is
// immutable.
type Source struct {
	Name string // the start of errors: a file's name, "stdin" for -e
	Text string

	lines []int32 // byte offset of the start of each line
}

// NewSource returns a source of text. Errors begin with name.
func NewSource(name, text string) *Source {
	s := &Source{Name: name, Text: text, lines: make([]int32, 1, 1+strings.Count(text, "\n"))}
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return s
		}
		at += i + 1
		s.lines = append(s.lines, int32(at))
	}
}

// Position returns the line and the column of a byte offset, both from 1. Columns count bytes.
// Both are 0 for a nil source, which errors of a whole script have.
func (s *Source) Position(offset int) (line, column int) {
	if s == nil {
		return 0, 0
	}
	i := sort.Search(len(s.lines), func(i int) bool { return int(s.lines[i]) > offset })
	return i, offset - int(s.lines[i-1]) + 1
}

// line returns the text of line n without its end, "" if there is no such line.
func (s *Source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	text := s.Text[s.lines[n-1]:]
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	return text
}

// Loc is the location of a node in its source. Each node embeds one.
type Loc struct {
	Source     *Source
	Start, End int32 // byte offsets
	From       *Loc  // the use of the macro that this was expanded from, or nil
}

// At returns the location itself. It makes each node a [Node].
func (l *Loc) At() *Loc { return l }

// Text returns the source's text at the location.
func (l *Loc) Text() string {
	if l.Source == nil {
		return ""
	}
	return l.Source.Text[l.Start:l.End]
}

// String returns name:line:column-column, name:line-line if the location has several lines,
// and "-" without a source.
func (l *Loc) String() string {
	if l.Source == nil {
		return "-"
	}
	line, column := l.Source.Position(int(l.Start))
	lastLine, lastColumn := l.Source.Position(int(l.End))
	if line != lastLine {
		return fmt.Sprintf("%s:%d-%d", l.Source.Name, line, lastLine)
	}
	return fmt.Sprintf("%s:%d:%d-%d", l.Source.Name, line, column, lastColumn)
}

// prefix returns the start of a message about a location.
func (l *Loc) prefix() string {
	if l.Source == nil {
		return ""
	}
	return l.String() + ": "
}

// mostContext is the largest length in bytes of a line or a location that errors show.
const mostContext = 4096

// context writes the source line of a location and its underline, or all the lines of a
// location that has several.
func (l *Loc) context(b *strings.Builder) {
	if l.Source == nil || l.Source.Text == "" {
		return
	}
	line, column := l.Source.Position(int(l.Start))
	last, end := l.Source.Position(int(l.End))
	if int(l.End-l.Start) > mostContext || len(l.Source.line(line)) > mostContext {
		return
	}
	if line != last {
		for ; line <= last; line++ {
			b.WriteString(l.Source.line(line) + "\n")
		}
		return
	}
	text := l.Source.line(line)
	b.WriteString(strings.ReplaceAll(text, "\t", "    ") + "\n")
	for i := 0; i < len(text) && i < end-1; i++ {
		mark := " "
		if i >= column-1 {
			mark = "~"
		}
		if text[i] == '\t' {
			mark = strings.Repeat(mark, 4)
		}
		b.WriteString(mark)
	}
	b.WriteString("\n")
}
