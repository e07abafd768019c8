package tool

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/probe/tool/cli"
)

// Output is where a tool prints. It is no io.Writer, so that names cannot be printed as they
// are by mistake. Main makes one of standard output, and a Run prints to it.
type Output = cli.Output

// NewOutput returns an Output that writes to w, for programs that run a tool without Main.
func NewOutput(w io.Writer) *Output { return cli.NewOutput(w) }

// Folded returns a folded stack, outermost frame first, without its count. In the frames, ';'
// becomes ':' and characters that a terminal acts on become blanks; an empty name becomes
// "[unknown]".
func Folded(frames ...string) string { return escape.Folded(frames...) }

// output prints text or JSON lines, and keeps the first error.
type output struct {
	to       *Output
	json     bool
	terminal bool
	colour   bool
	err      error
}

func (o *output) init(to *Output, asJSON bool) {
	o.to, o.json = to.Buffered(), asJSON
	o.terminal = !asJSON && to.Terminal()
	o.colour = o.terminal && os.Getenv("NO_COLOR") == ""
}

// raw writes bytes as they are.
func (o *output) raw(b []byte) (int, error) {
	n, err := o.to.Raw().Write(b)
	o.keep(err)
	return n, err
}

func (o *output) keep(err error) {
	if o.err == nil {
		o.err = err
	}
}

// clear clears the screen if the output is a terminal.
func (o *output) clear() {
	if o.terminal {
		o.raw([]byte("\x1b[H\x1b[2J"))
	}
}

func (r *Run) flush() {
	r.out.keep(r.out.to.Flush())
}

// Printf prints text; with -json it prints nothing. Characters in the arguments that would
// control a terminal, line ends included, are printed as '?', since names can contain
// anything. A write error ends the run, and Run returns it.
func (r *Run) Printf(format string, args ...any) {
	if !r.out.json {
		r.out.keep(r.out.to.Printf(format, args...))
	}
}

// Raw returns a writer for text that needs no escaping, such as the output of packages
// profile and hist. With -json it writes nothing.
func (r *Run) Raw() io.Writer { return rawText{&r.out} }

// rawText is the writer of Raw.
type rawText struct{ out *output }

// Write implements io.Writer.
func (w rawText) Write(text []byte) (int, error) {
	if w.out.json {
		return len(text), nil
	}
	return w.out.raw(text)
}

// Note is Printf for messages about the run itself. They go to standard error if standard
// output is for another program (Tool.NotesToStderr).
func (r *Run) Note(format string, args ...any) {
	if r.tool.NotesToStderr {
		r.tool.Stderr.Printf(format, args...)
		return
	}
	r.Printf(format, args...)
}

// JSON prints a value as one line; without -json it prints nothing. An object that Every's
// function prints at the end of an interval has an additional first member "interval_end":
// the time Now in UTC.
func (r *Run) JSON(v any) {
	if !r.out.json {
		return
	}
	b, err := escape.Marshal(v)
	r.out.keep(err)
	if r.ticking && len(b) > 2 && b[0] == '{' {
		b = append(r.tick.UTC().AppendFormat([]byte(`{"interval_end":"`), time.RFC3339Nano+`",`),
			b[1:]...)
	}
	r.out.raw(append(b, '\n'))
}

// Clock prints the time of day of Now on a line, as BCC's -T does.
func (r *Run) Clock() { r.Printf("%s\n", r.Now().Format("15:04:05")) }

// Hist prints a histogram as BCC does, with unit ("usecs") as the heading of the values, and
// without the empty rows that BCC prints before the first value. The
// heading of the histogram is "LABEL = KEY" unless label is empty. With -json it is an object
// with the key under label, the unit, and the buckets that are not empty.
func (r *Run) Hist(d hist.Distribution, unit, label string, key any) {
	if r.out.json {
		r.JSON(histJSON(d, unit, label, key))
		return
	}
	o := &hist.BCCOptions{ValType: unit, StripLeadingZero: true}
	if label != "" {
		o.Section, o.Name = label, plain(key)
	}
	r.out.keep(hist.PrintBCC(r.Raw(), d, o))
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
	s    *Run
	cols []column
	csv  bool
}

type column struct {
	name, key string
	verb      string // for the values
	head      string // for the heading
	hidden    bool
}

// Table returns a table with columns like "PID %-7d" or "LAT(ms) %10.3f": a heading, with its
// unit, and the format of the values. With -json the column's key is the heading in lower
// case: pid, lat_ms. Table prints nothing.
func (r *Run) Table(columns ...string) *Table {
	t := &Table{s: r}
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

// Show shows the column with that heading, or hides it if shown is false. Rows have a value
// for a hidden column, too. It returns t.
func (t *Table) Show(name string, shown bool) *Table {
	for i := range t.cols {
		if t.cols[i].name == name {
			t.cols[i].hidden = !shown
		}
	}
	return t
}

// CSV makes t print its headings and rows as comma-separated values if on is true. It returns
// t.
func (t *Table) CSV(on bool) *Table {
	t.csv = on
	return t
}

// jsonKey returns a heading's key: "lat_ms" for "LAT(ms)".
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

// Header prints the headings; with -json it prints nothing.
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

// Row prints values, one for each column. It returns an error only if there are more or fewer
// values than columns, so that Each's function can return its result. Run returns that error,
// too, and write errors.
func (t *Table) Row(values ...any) error { return t.row("", values) }

// Alert is Row for failures: in red on a terminal.
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

// quoteCSV returns a value as RFC 4180 quotes it.
func quoteCSV(s string) string {
	if !strings.ContainsAny(s, `,"`) {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// line writes a line without trailing blanks.
func (t *Table) line(fill func(*bytes.Buffer), colour string) {
	var b bytes.Buffer
	fill(&b)
	line := bytes.TrimRight(b.Bytes(), " ")
	if colour != "" && t.s.out.colour {
		line = fmt.Appendf(nil, "\x1b[%sm%s\x1b[0m", colour, line)
	}
	t.s.out.raw(append(line, '\n'))
}

// text returns v as text if it is a string, a Stringer, or bytes; an array of bytes, as
// programs fill them in, ends at its first NUL.
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
	k, _ := escape.Marshal(key) // marshaling a string can't fail
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

// MarshalJSON implements json.Marshaler.
func (o *object) MarshalJSON() ([]byte, error) {
	return append(append([]byte{'{'}, o.buf.Bytes()...), '}'), nil
}
