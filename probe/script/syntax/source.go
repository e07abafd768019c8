package syntax

import (
	"fmt"
	"sort"
	"strings"
)

// Source is a text that nodes have positions in: a script, or the expansion of a #define.
// It is immutable.
type Source struct {
	Name string // as errors begin: a file's name, "stdin" for -e
	Text string

	lines []int32 // where each line starts
}

// NewSource returns a source for positions; name is what errors begin with.
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

// Position returns the line and the column of a byte offset, both from 1; columns count
// bytes. Both are 0 of a nil source, as errors of a whole script have it.
func (s *Source) Position(offset int) (line, column int) {
	if s == nil {
		return 0, 0
	}
	i := sort.Search(len(s.lines), func(i int) bool { return int(s.lines[i]) > offset })
	return i, offset - int(s.lines[i-1]) + 1
}

// line is a line's text without its end, or "" after the last.
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

// Loc is where a node is in its source. Each node embeds one.
type Loc struct {
	Source     *Source
	Start, End int32 // byte offsets
	From       *Loc  // the use of the macro that this was expanded from, or nil
}

// At returns the location itself: it makes each node a [Node].
func (l *Loc) At() *Loc { return l }

// Text returns the source's text there.
func (l *Loc) Text() string {
	if l.Source == nil {
		return ""
	}
	return l.Source.Text[l.Start:l.End]
}

// String returns name:line:column-column, or name:line-line where that is several lines.
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

// prefix is what a line about a location begins with.
func (l *Loc) prefix() string {
	if l.Source == nil {
		return ""
	}
	return l.String() + ": "
}

// mostContext is the longest line that errors show.
const mostContext = 4096

// context writes the source line and the underline of a location, or all the lines
// of one over several.
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
