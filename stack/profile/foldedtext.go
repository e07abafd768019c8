package profile

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxFoldedLine bounds one line of folded text: some ten thousand frames.
const maxFoldedLine = 16 << 20

// WriteTo writes the folded text format: one line a stack, root first, frames separated by
// ';', a space and the count. In a differential set the count before comes first, as
// difffolded.pl writes them. Lines are sorted. ParseFolded reads the format.
func (f *Folded) WriteTo(w io.Writer) (int64, error) {
	bw := bufio.NewWriter(w)
	var written int64
	var line []byte
	for _, k := range f.keys() {
		e := f.entries[k]
		line = append(append(line[:0], k...), ' ')
		if f.differential {
			line = append(strconv.AppendInt(line, e.base, 10), ' ')
		}
		line = append(strconv.AppendInt(line, e.count, 10), '\n')
		n, err := bw.Write(line)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, bw.Flush()
}

// String returns the folded text.
func (f *Folded) String() string {
	var b strings.Builder
	_, _ = f.WriteTo(&b) // a Builder does not fail
	return b.String()
}

// ParseFolded reads the folded text format, from this package or from any of
// FlameGraph's stackcollapse tools. Equal stacks are merged; empty lines are
// left out. The set is differential if every line has two counts (a
// stackcollapse tool may have left a number at the end of a frame's name, so
// one line with two is not enough). Counts are whole numbers. An error names
// the line.
func ParseFolded(r io.Reader) (*Folded, error) {
	type line struct {
		stack       string
		base, count int64
		two         bool
	}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxFoldedLine)
	var lines []line
	differential := true
	for no := 1; sc.Scan(); no++ {
		text := strings.TrimRight(sc.Text(), " \t\r")
		if text == "" {
			continue
		}
		stack, count, ok := cutCount(text)
		if !ok {
			return nil, fmt.Errorf("folded:%d: no count at the end of %.80q", no, text)
		}
		l := line{stack: stack, count: count}
		if s, base, ok := cutCount(stack); ok && strings.TrimSpace(s) != "" {
			l.stack, l.base, l.two = s, base, true
		}
		differential = differential && l.two
		lines = append(lines, l)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("folded:%d: %w", len(lines)+1, err)
	}
	f := &Folded{differential: differential && len(lines) > 0}
	for _, l := range lines {
		if l.two && !differential {
			l.stack, l.base = l.stack+" "+strconv.FormatInt(l.base, 10), 0
		}
		f.add(strings.Split(l.stack, ";"), l.base, l.count)
	}
	return f, nil
}

// cutCount splits a whole number off the end of a line.
func cutCount(s string) (rest string, n int64, ok bool) {
	i := strings.LastIndexAny(s, " \t")
	if i < 0 || i+1 == len(s) || s[i+1] < '0' || s[i+1] > '9' {
		return s, 0, false
	}
	n, err := strconv.ParseInt(s[i+1:], 10, 64)
	if err != nil {
		return s, 0, false
	}
	return strings.TrimRight(s[:i], " \t"), n, true
}

// MarshalText returns the folded text format.
func (f *Folded) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText replaces f by the folded text in b.
func (f *Folded) UnmarshalText(b []byte) error {
	p, err := ParseFolded(strings.NewReader(string(b)))
	if err != nil {
		return err
	}
	*f = *p
	return nil
}
