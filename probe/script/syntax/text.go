package syntax

import (
	"fmt"
	"sort"
	"strings"
)

// Text is what contains nodes: a script, or the expansion of a #define. It is immutable.
type Text struct {
	Name    string // the start of errors: a file's name, "stdin" for -e
	Content string

	lines []int32 // byte offset of the start of each line
}

// NewText returns a text. Errors begin with name.
func NewText(name, content string) *Text {
	t := &Text{Name: name, Content: content, lines: make([]int32, 1, 1+strings.Count(content, "\n"))}
	for at := 0; ; {
		i := strings.IndexByte(content[at:], '\n')
		if i < 0 {
			return t
		}
		at += i + 1
		t.lines = append(t.lines, int32(at))
	}
}

// Position returns the line and the column of a byte offset, both from 1. Columns count bytes.
// Both are 0 for a nil text, which errors of a whole script have.
func (t *Text) Position(offset int) (line, column int) {
	if t == nil {
		return 0, 0
	}
	i := sort.Search(len(t.lines), func(i int) bool { return int(t.lines[i]) > offset })
	return i, offset - int(t.lines[i-1]) + 1
}

// line returns the text of line n without its end, "" if there is no such line.
func (t *Text) line(n int) string {
	if n < 1 || n > len(t.lines) {
		return ""
	}
	text := t.Content[t.lines[n-1]:]
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	return text
}

// Loc is the location of a node in its text. Each node embeds one.
type Loc struct {
	In         *Text // nil if the node is in none
	Start, End int32 // byte offsets
	From       *Loc  // the use of the macro that this was expanded from, or nil
}

// At returns the location itself. It makes each node a [Node].
func (l *Loc) At() *Loc { return l }

// Text returns what is at the location.
func (l *Loc) Text() string {
	if l.In == nil {
		return ""
	}
	return l.In.Content[l.Start:l.End]
}

// String returns name:line:column-column, name:line-line if the location has several lines,
// and "-" without a text.
func (l *Loc) String() string {
	if l.In == nil {
		return "-"
	}
	line, column := l.In.Position(int(l.Start))
	lastLine, lastColumn := l.In.Position(int(l.End))
	if line != lastLine {
		return fmt.Sprintf("%s:%d-%d", l.In.Name, line, lastLine)
	}
	return fmt.Sprintf("%s:%d:%d-%d", l.In.Name, line, column, lastColumn)
}

// prefix returns the start of a message about a location.
func (l *Loc) prefix() string {
	if l.In == nil {
		return ""
	}
	return l.String() + ": "
}

// mostContext is the largest length in bytes of a line or a location that errors show.
const mostContext = 4096

// context writes the source line of a location and its underline, or all the lines of a
// location that has several.
func (l *Loc) context(b *strings.Builder) {
	if l.In == nil || l.In.Content == "" {
		return
	}
	line, column := l.In.Position(int(l.Start))
	last, end := l.In.Position(int(l.End))
	if int(l.End-l.Start) > mostContext || len(l.In.line(line)) > mostContext {
		return
	}
	if line != last {
		for ; line <= last; line++ {
			b.WriteString(l.In.line(line) + "\n")
		}
		return
	}
	text := l.In.line(line)
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
