package tool

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/borescope/borescope/escape"
	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/probe/tool/cli"
)

// output writes text or JSON lines, and keeps the first error.
type output struct {
	w        *bufio.Writer
	json     bool
	terminal bool
	colour   bool
	err      error
}

func (o *output) init(w io.Writer, asJSON bool) {
	o.w, o.json = bufio.NewWriter(w), asJSON
	o.terminal = !asJSON && cli.Terminal(w)
	o.colour = o.terminal && os.Getenv("NO_COLOR") == ""
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	o.keep(err)
	return n, err
}

func (o *output) keep(err error) {
	if o.err == nil {
		o.err = err
	}
}

// clear empties the terminal.
func (o *output) clear() {
	if o.terminal {
		io.WriteString(o, "\x1b[H\x1b[2J")
	}
}

func (s *Session) flush() {
	s.out.keep(s.out.w.Flush())
}

// Printf prints text; with -json it prints nothing. What a terminal would act on in
// the arguments, line ends too, is printed as '?': names are whatever their owners
// like. A write error ends the run, and is Run's.
func (s *Session) Printf(format string, args ...any) {
	if !s.out.json {
		escape.Fprintf(&s.out, format, args...)
	}
}

// Write prints text that is safe as it is: what package profile and hist write. With
// -json it prints nothing.
func (s *Session) Write(text []byte) (int, error) {
	if s.out.json {
		return len(text), nil
	}
	return s.out.Write(text)
}

// Note is Printf for what is said about the run itself: it goes to standard error
// where standard output is for another program (Tool.NotesToStderr).
func (s *Session) Note(format string, args ...any) {
	if s.tool.NotesToStderr {
		escape.Fprintf(s.tool.Stderr, format, args...)
		return
	}
	s.Printf(format, args...)
}

// JSON prints a value as one line; without -json it prints nothing. An object
// that Every's function prints at the end of an interval has the member "interval_end"
// before its own: that moment, Now, in UTC.
func (s *Session) JSON(v any) {
	if !s.out.json {
		return
	}
	b, err := escape.Marshal(v)
	s.out.keep(err)
	if s.ticking && len(b) > 2 && b[0] == '{' {
		b = append(s.tick.UTC().AppendFormat([]byte(`{"interval_end":"`), time.RFC3339Nano+`",`),
			b[1:]...)
	}
	s.out.Write(append(b, '\n'))
}

// Clock prints the time of day of Now on a line of its own, as BCC's -T does.
func (s *Session) Clock() { s.Printf("%s\n", s.Now().Format("15:04:05")) }

// Hist prints a histogram as BCC prints it, values headed by unit ("usecs"),
// under a heading "LABEL = KEY" unless label is empty. With -json it is an object
// with label and key, unit and the buckets that are not empty.
func (s *Session) Hist(d hist.Distribution, unit, label string, key any) {
	if s.out.json {
		s.JSON(histJSON(d, unit, label, key))
		return
	}
	o := &hist.BCCOptions{ValType: unit}
	if label != "" {
		o.Section, o.Name = label, plain(key)
	}
	s.out.keep(hist.PrintBCC(&s.out, d, o))
}

func histJSON(d hist.Distribution, unit, label string, key any) any {
	type bucket struct {
		Lo    int64  `json:"lo"`
		Hi    int64  `json:"hi"`
		Count uint64 `json:"count"`
	}
	buckets := []bucket{}
	for _, b := range d.Buckets() {
		if b.Count > 0 {
			buckets = append(buckets, bucket{b.Lo, b.Hi - 1, b.Count})
		}
	}
	var o object
	if label != "" {
		o.add(label, key)
	}
	o.add("unit", unit)
	o.add("buckets", buckets)
	return &o
}

// Table prints rows of columns, or JSON objects.
type Table struct {
	s    *Session
	cols []column
	csv  bool
}

type column struct {
	name, key string
	verb      string // of a value
	head      string // of its heading
	hidden    bool
}

// Table returns a table with columns like "PID %-7d" or "LAT(ms) %10.3f": a
// heading with its unit, and how values are formatted. The object's key with
// -json is the heading in lower case: pid, lat_ms. It prints nothing.
func (s *Session) Table(columns ...string) *Table {
	t := &Table{s: s}
	for _, c := range columns {
		name, verb, ok := strings.Cut(c, " %")
		if !ok {
			verb = "v"
		}
		width := strings.TrimRight(verb, "abcdefghijklmnopqrstuvwxyz+#")
		width, _, _ = strings.Cut(strings.TrimLeft(width, "+#0"), ".")
		t.cols = append(t.cols,
			column{name: name, key: jsonKey(name), verb: "%" + verb, head: "%" + width + "s"})
	}
	return t
}

// Show says whether the column with that heading is shown, as flags decide; rows
// have a value for it all the same. It returns t.
func (t *Table) Show(name string, shown bool) *Table {
	for i := range t.cols {
		if t.cols[i].name == name {
			t.cols[i].hidden = !shown
		}
	}
	return t
}

// CSV has the headings and rows printed as comma-separated values, if on. It
// returns t.
func (t *Table) CSV(on bool) *Table {
	t.csv = on
	return t
}

// jsonKey is "lat_ms" for "LAT(ms)".
func jsonKey(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r == '%':
			return 'p'
		}
		return '_'
	}, name), "_")
}

// Header prints the headings; with -json nothing.
func (t *Table) Header() {
	if t.s.out.json {
		return
	}
	t.line(func(b *bytes.Buffer) {
		for _, c := range t.cols {
			t.cell(b, &c, c.head, c.name)
		}
	}, "1")
}

// Row prints values, one for each column. It returns nil, so that it can be what
// Each's function returns; write errors are Run's, and so is the error that it
// returns where there are more or fewer values than columns.
func (t *Table) Row(values ...any) error { return t.row("", values) }

// Alert is Row, in red on a terminal: for what failed.
func (t *Table) Alert(values ...any) error { return t.row("31", values) }

func (t *Table) row(colour string, values []any) error {
	if len(values) != len(t.cols) {
		err := fmt.Errorf("table of %d columns: row of %d values", len(t.cols), len(values))
		t.s.out.keep(err)
		return err
	}
	if t.s.out.json {
		var o object
		for i, c := range t.cols {
			if !c.hidden {
				o.add(c.key, values[i])
			}
		}
		t.s.JSON(&o)
		return nil
	}
	t.line(func(b *bytes.Buffer) {
		for i, c := range t.cols {
			t.cell(b, &c, c.verb, values[i])
		}
	}, colour)
	return nil
}

func (t *Table) cell(b *bytes.Buffer, c *column, verb string, v any) {
	if c.hidden {
		return
	}
	if s, ok := text(v); ok {
		v = s
	}
	switch {
	case t.csv:
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quoteCSV(strings.TrimSpace(escape.Sprintf(verb, v))))
	default:
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		escape.Fprintf(b, verb, v)
	}
}

// quoteCSV is a value as RFC 4180 writes it.
func quoteCSV(s string) string {
	if !strings.ContainsAny(s, `,"`) {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// line writes a line without blanks at its end.
func (t *Table) line(fill func(*bytes.Buffer), colour string) {
	var b bytes.Buffer
	fill(&b)
	line := bytes.TrimRight(b.Bytes(), " ")
	if colour != "" && t.s.out.colour {
		line = fmt.Appendf(nil, "\x1b[%sm%s\x1b[0m", colour, line)
	}
	t.s.out.Write(append(line, '\n'))
}

// text is v as text if it is some: a string, a Stringer, or bytes that a program
// filled in up to a NUL.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case fmt.Stringer:
		return v.String(), true
	case []byte:
		return string(v), true
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Array && r.Type().Elem().Kind() == reflect.Uint8 {
		b := make([]byte, r.Len())
		reflect.Copy(reflect.ValueOf(b), r)
		if i := bytes.IndexByte(b, 0); i >= 0 {
			b = b[:i]
		}
		return string(b), true
	}
	return "", false
}

func plain(v any) string {
	if s, ok := text(v); ok {
		v = s
	}
	return escape.Sprintf("%v", v)
}

// object is a JSON object with its keys in order.
type object struct{ buf bytes.Buffer }

func (o *object) add(key string, v any) {
	if s, ok := text(v); ok {
		v = s
	}
	k, _ := escape.Marshal(key) // a string can't fail
	val, err := escape.Marshal(v)
	if err != nil {
		val, _ = escape.Marshal(err.Error())
	}
	if o.buf.Len() > 0 {
		o.buf.WriteByte(',')
	}
	o.buf.Write(k)
	o.buf.WriteByte(':')
	o.buf.Write(val)
}

// MarshalJSON returns the object.
func (o *object) MarshalJSON() ([]byte, error) {
	return append(append([]byte{'{'}, o.buf.Bytes()...), '}'), nil
}
