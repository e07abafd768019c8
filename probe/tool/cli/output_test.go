package cli

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/escape"
)

// TestOutputIsNoWriter: tools printed with fmt.Fprintf to an io.Writer, and only a search
// through their sources found the names that were printed as they are.
func TestOutputIsNoWriter(t *testing.T) {
	var o any = NewOutput(io.Discard)
	if _, ok := o.(io.Writer); ok {
		t.Error("fmt.Fprintf to an Output compiles")
	}
	if _, ok := o.(io.StringWriter); ok {
		t.Error("io.WriteString to an Output compiles")
	}
	if _, ok := o.(io.ReaderFrom); ok {
		t.Error("an Output reads from files")
	}
}

func TestOutput(t *testing.T) {
	const name = "a\x1b[2J\tb\n\u202ec\u200dd"
	const safe = "a?[2J?b??c?d"
	for _, buffered := range []bool{false, true} {
		var b bytes.Buffer
		o := NewOutput(&b)
		if buffered {
			o = o.Buffered()
		}
		for _, err := range []error{
			o.Printf("%d\t%s\n", 1, name),
			o.Println(name, errors.New(name)),
			o.Println(),
			o.Text("head\tline\x1b\n"),
			o.JSON(map[string]string{"<n>": "a\u009b\u200d"}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		io.WriteString(o.Raw(), "\x1b[1m")
		o.Raw().Write([]byte("raw\x1b[0m\n"))
		if got := b.Len(); buffered && got != 0 {
			t.Errorf("%d bytes before Flush", got)
		}
		if err := o.Flush(); err != nil {
			t.Error(err)
		}
		want := "1\t" + safe + "\n" + safe + " " + safe + "\n\nhead\tline?\n" +
			`{"<n>":"a\u009b\u200d"}` + "\n\x1b[1mraw\x1b[0m\n"
		if b.String() != want {
			t.Errorf("buffered %v: %q, want %q", buffered, b.String(), want)
		}
	}
}

// full is a writer that fails after n writes.
type full struct{ n, failed int }

func (f *full) Write(b []byte) (int, error) {
	if f.n--; f.n < 0 {
		f.failed++
		return 0, os.ErrDeadlineExceeded
	}
	return len(b), nil
}

// TestOutputKeepsError checks that the first error of a write is the result of all later
// calls, that nothing is written after it, and that a value that is no JSON fails alone.
func TestOutputKeepsError(t *testing.T) {
	w := &full{n: 1}
	o := NewOutput(w)
	if err := o.JSON(func() {}); err == nil || o.Printf("a") != nil {
		t.Errorf("JSON of a function: %v", err)
	}
	_, raw := o.Raw().Write([]byte("b"))
	for _, err := range []error{
		raw, o.Printf("c"), o.Println("d"), o.Text("e"), o.JSON(1), o.Flush(),
	} {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	}
	if w.failed != 1 {
		t.Errorf("%d writes after the first error", w.failed-1)
	}
	b := NewOutput(&full{}).Buffered()
	if err := b.Printf("kept"); err != nil {
		t.Error(err)
	}
	if err := b.Flush(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Flush: %v", err)
	}
}

// TestBufferedTerminal: hist drew heat maps without colours on every terminal, since it
// asked a buffer in front of the terminal whether that was one.
func TestBufferedTerminal(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // which is a character device, too
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	for term, want := range map[string]bool{"xterm": true, "dumb": false, "": false} {
		t.Setenv("TERM", term)
		o := NewOutput(device)
		if got := o.Buffered().Terminal(); got != want || o.Terminal() != want {
			t.Errorf("TERM=%q: terminal %v", term, got)
		}
	}
	if NewOutput(io.Discard).Terminal() {
		t.Error("no file is a terminal")
	}
}

// TestErrorLinesAreSafe: a line of an error began with the program's name as it was, and the
// words of a mistake on the command line are the user's.
func TestErrorLinesAreSafe(t *testing.T) {
	fs := flag.NewFlagSet("prog", flag.ContinueOnError)
	var b bytes.Buffer
	Status("prog\x1b[2J", Parse(fs, []string{"-\u202ebad\x1b\n"}, NewOutput(&b)), &b)
	Status("prog\x1b[2J", errors.Join(errors.New("a\x1b"), errors.New("b\u200d")), &b)
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "prog?[2J: ") || !escape.Safe(strings.TrimSuffix(line, "\n")) {
			t.Errorf("%q", line)
		}
	}
	if n := strings.Count(b.String(), "\n"); n != 3 {
		t.Errorf("%d lines: %q", n, b.String())
	}
}

// TestUsageIsSafe checks that what a flag set prints, such as a default value, is escaped.
func TestUsageIsSafe(t *testing.T) {
	fs := flag.NewFlagSet("prog", flag.ContinueOnError)
	fs.String("s", "\x1b[2J", "usage\u202e")
	fs.Duration("d", time.Second, "time")
	var b bytes.Buffer
	if err := Parse(fs, []string{"-h"}, NewOutput(&b)); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
	if s := b.String(); strings.ContainsAny(s, "\x1b\u202e") || !strings.Contains(s, "(default 1s)") {
		t.Errorf("%q", s)
	}
}
