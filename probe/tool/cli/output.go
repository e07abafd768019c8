package cli

import (
	"bufio"
	"io"
	"os"

	"github.com/borescope/borescope/internal/escape"
)

// Output is where a program prints: its standard output, its standard error, a file.
// Names of files, threads and functions are chosen by their owners and can contain
// anything, such as the control sequences of a terminal. An Output is therefore no
// io.Writer: its methods replace what a terminal acts on, and fmt.Fprintf to it does not
// compile. What has to be written as it is goes through Raw.
//
// An Output keeps the first error of a write, returns it from all later calls and writes
// nothing more. A program that prints to the end may check it once, with Flush. An Output
// is for one goroutine at a time.
type Output struct {
	to  io.Writer
	buf *bufio.Writer // of Buffered; nil if each call is a write
	err error
}

// NewOutput returns an Output that writes to w, each call at once. It does not close w.
func NewOutput(w io.Writer) *Output { return &Output{to: w} }

// Buffered returns an Output that prints to where o does, in large writes. The caller
// flushes it with Flush.
func (o *Output) Buffered() *Output {
	return &Output{to: o.to, buf: bufio.NewWriter(o.to)}
}

// Printf prints like fmt.Printf. In the arguments, each character that a terminal acts on,
// line ends and tabs included, becomes '?'. The format is the program's own, and printed as
// it is.
func (o *Output) Printf(format string, args ...any) error {
	return o.write(escape.Sprintf(format, args...))
}

// Println prints like fmt.Println, with arguments as in Printf.
func (o *Output) Println(args ...any) error {
	return o.write(escape.Sprintln(args...))
}

// Text prints text of several lines that the program laid out: a usage page, a table. Line
// feeds and tabs stay; other characters that a terminal acts on become '?'.
func (o *Output) Text(s string) error { return o.write(escape.Lines(s)) }

// JSON prints a value as one line of JSON, as encoding/json does, but with <, > and & as
// they are and with \u escapes for characters that a terminal acts on. An error of encoding
// is returned, and not kept.
func (o *Output) JSON(v any) error {
	b, err := escape.Marshal(v)
	if err != nil {
		return err
	}
	return o.write(string(append(b, '\n')))
}

func (o *Output) write(s string) error {
	_, err := io.WriteString(raw{o}, s)
	return err
}

// Raw returns a writer that writes bytes as they are: a picture, a file, colours, or lines
// whose names Escape has made safe. It shares o's buffer and its first error.
func (o *Output) Raw() io.Writer { return raw{o} }

// raw is the writer of Raw.
type raw struct{ o *Output }

// Write implements io.Writer.
func (r raw) Write(b []byte) (n int, err error) {
	o := r.o
	switch {
	case o.err != nil:
		return 0, o.err
	case o.buf != nil:
		n, o.err = o.buf.Write(b)
	default:
		n, o.err = o.to.Write(b)
	}
	return n, o.err
}

// WriteString implements io.StringWriter.
func (r raw) WriteString(s string) (n int, err error) {
	o := r.o
	switch {
	case o.err != nil:
		return 0, o.err
	case o.buf != nil:
		n, o.err = o.buf.WriteString(s)
	default:
		n, o.err = io.WriteString(o.to, s)
	}
	return n, o.err
}

// Flush writes what Buffered has kept, and returns the first error.
func (o *Output) Flush() error {
	if o.err == nil && o.buf != nil {
		o.err = o.buf.Flush()
	}
	return o.err
}

// Terminal reports whether the output is a terminal that understands colours.
func (o *Output) Terminal() bool {
	f, ok := o.to.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "" &&
		os.Getenv("TERM") != "dumb"
}

// Escape returns s as Printf prints an argument. It is for lines that are put together by
// hand and written with Raw, where fmt is too slow.
func Escape(s string) string { return escape.Terminal(s) }
