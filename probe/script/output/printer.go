package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/script/internal/printf"
)

// Options are the options of a Printer and of Decode. The zero value prints text.
type Options struct {
	// JSON prints lines of JSON, as bpftrace's -f json does.
	JSON bool
	// Raw prints text of traced processes as it is, with what terminals act on.
	Raw bool
	// Cut marks a text that was cut, which fills the length that it may have; "" is "..".
	Cut string
	// Arch is the machine whose system calls are named, as GOARCH names it. "": this program's.
	Arch string
	// Time returns the time of a clock: boot, tai or sw_tai. Nil is that of nanoseconds since 1970.
	Time func(clock string, ns uint64) time.Time
	// Names gives names to numbers; nil is none.
	Names Names
}

// Printer prints a script's output. It is for one goroutine.
type Printer struct {
	w       io.Writer
	o       Options
	b       []byte
	formats map[string]*printf.Format // those that were used
}

// New returns a printer that writes to w. o may be nil.
func New(w io.Writer, o *Options) *Printer {
	p := &Printer{w: w, formats: map[string]*printf.Format{}}
	if o != nil {
		p.o = *o
	}
	return p
}

// Printf prints values of Decode by a format of printf(), as many as it has conversions.
func (p *Printer) Printf(format string, values []any) error {
	p.b = p.parsed(format).Append(p.b[:0], values)
	if p.o.JSON {
		return p.line("printf", string(p.b))
	}
	return p.write(p.b)
}

// parsed returns a format that was parsed once.
func (p *Printer) parsed(format string) *printf.Format {
	f := p.formats[format]
	if f == nil {
		f = printf.Parse(format)
		p.formats[format] = f
	}
	return f
}

// Value prints a value on a line of its own.
func (p *Printer) Value(v any) error {
	if p.o.JSON {
		return p.line("value", v)
	}
	p.b = append(append(p.b[:0], printf.Text(v)...), '\n')
	return p.write(p.b)
}

// Time prints a text of the time.
func (p *Printer) Time(text string) error { return p.text("time", text, "") }

// End prints what separates a script's output from its maps, which are printed at the end.
func (p *Printer) End() error {
	if p.o.JSON {
		return nil
	}
	return p.write([]byte("\n\n"))
}

// Message prints a message of warnf() or errorf(), or about what the script does, if the output is
// JSON, where it is a line like others. Else it prints nothing and returns false: the message is for
// standard error. Line and column count from 1.
func (p *Printer) Message(kind, message, file string, line, column int) (bool, error) {
	if !p.o.JSON {
		return false, nil
	}
	p.b = append(p.b[:0], `{"type": "`...)
	p.b = append(append(p.b, kind...), `", "msg": `...)
	p.b = append(appendJSON(p.b, message), `, "filename": `...)
	p.b = appendJSON(p.b, file)
	p.b = fmt.Appendf(p.b, ", \"line\": %d, \"col\": %d}\n", line, column)
	return true, p.write(p.b)
}

// Format returns values by a format of printf(), as Printf prints them.
func (p *Printer) Format(format string, values []any) string {
	return string(p.parsed(format).Append(nil, values))
}

// Join prints texts that were joined, on a line.
func (p *Printer) Join(text string) error { return p.text("join", text, "\n") }

// Cat prints what cat() read of a file.
func (p *Printer) Cat(text string) error { return p.text("cat", text, "") }

// System prints what a command of system() printed, and ends the line.
func (p *Printer) System(text string) error { return p.text("syscall", text, "\n") }

// text prints a text and its end, or a line of JSON with the text.
func (p *Printer) text(kind, text, end string) error {
	if p.o.JSON {
		return p.line(kind, text)
	}
	return p.write([]byte(text + end))
}

// Entry is an entry of a map: Value is a number, a value of Decode, or one of mapx's and hist's.
type Entry struct{ Key, Value any }

// MapOptions are the options of Map.
type MapOptions struct {
	Scalar bool // the map has no keys
	Top    int  // print only that many entries, those with the largest values; 0 is all
	Div    int  // divide the values; 0 is 1
}

// Map prints a map's entries, in bpftrace's order.
func (p *Printer) Map(name string, entries []Entry, o *MapOptions) error {
	slices.SortStableFunc(entries, func(a, b Entry) int { return compare(a.Key, b.Key) })
	rows := make([]mapx.Row, len(entries))
	for i, e := range entries {
		rows[i] = mapx.Row{Value: e.Value}
		if !o.Scalar {
			rows[i].Key = keyOf(e.Key, p.o.JSON)
		}
	}
	r := &mapx.RowOptions{Top: o.Top, Div: int64(o.Div), Scalar: o.Scalar}
	if p.o.JSON {
		return mapx.PrintRowsJSON(p.w, name, rows, r)
	}
	return mapx.PrintRows(p.w, name, rows, r)
}

// Attached says how many probes are attached, and Lost how many events were lost: in JSON a line
// like others, else for standard error.
func (p *Printer) Attached(n int) (text string, err error) {
	if p.o.JSON {
		return "", p.write(fmt.Appendf(nil,
			"{\"type\": \"attached_probes\", \"count\": %d, \"data\": {\"probes\": %d}}\n", n, n))
	}
	if n == 1 {
		return "Attached 1 probe\n", nil
	}
	return "Attached " + strconv.Itoa(n) + " probes\n", nil
}

// Lost says how many events were lost.
func (p *Printer) Lost(n uint64) (text string, err error) {
	if p.o.JSON {
		return "", p.write(fmt.Appendf(nil,
			"{\"type\": \"lost_events\", \"count\": %d, \"data\": {\"events\": %d}}\n", n, n))
	}
	return "Lost " + strconv.FormatUint(n, 10) + " events\n", nil
}

// Loss is what was lost for one reason.
type Loss struct {
	// Reason is a word for programs, and its name in JSON. Count is how much was lost.
	Reason string
	Count  uint64
	// Text says it to people; it is "" for what was said when it happened.
	Text string
}

// Losses says what was lost: in JSON a line like others, else for standard error.
func (p *Printer) Losses(list []Loss) (text string, err error) {
	if !p.o.JSON {
		for _, l := range list {
			if l.Text != "" {
				text += "WARNING: " + l.Text + "\n"
			}
		}
		return text, nil
	}
	if len(list) == 0 {
		return "", nil
	}
	p.b = append(p.b[:0], `{"type": "losses", "data": {`...)
	for i, l := range list {
		if i > 0 {
			p.b = append(p.b, ", "...)
		}
		p.b = fmt.Appendf(appendText(p.b, l.Reason), ": %d", l.Count)
	}
	p.b = append(p.b, "}}\n"...)
	return "", p.write(p.b)
}

// line writes a line of JSON.
func (p *Printer) line(kind string, v any) error {
	p.b = append(p.b[:0], `{"type": "`...)
	p.b = append(append(p.b, kind...), `", "data": `...)
	p.b = append(appendJSON(p.b, v), "}\n"...)
	return p.write(p.b)
}

func (p *Printer) write(b []byte) error {
	_, err := p.w.Write(b)
	return err
}

// appendJSON appends a value as bpftrace does: numbers that a float64 cannot hold are strings.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case interface{ AppendJSON([]byte) []byte }:
		return v.AppendJSON(b)
	case int64:
		text := strconv.FormatInt(v, 10)
		if f := float64(v); f >= 1<<63 || int64(f) != v {
			return appendText(b, text)
		}
		return append(b, text...)
	case uint64:
		text := strconv.FormatUint(v, 10)
		if f := float64(v); f >= 1<<64 || uint64(f) != v {
			return appendText(b, text)
		}
		return append(b, text...)
	case bool:
		return strconv.AppendBool(b, v)
	case nil:
		return append(b, "null"...)
	}
	return appendText(b, printf.Text(v))
}

// appendText appends a JSON string, without escapes for HTML.
func appendText(b []byte, s string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings always encode
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}
