package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/probe/tool/cli"
)

// These are limits in bytes: of raw notes (a kernel's have some hundred), and of standard input
// that is a pipe.
const (
	maxRaw  = 16 << 20
	maxPipe = 1 << 30
)

const usage = `Usage: elfnotes [-json] FILE…|-
Prints the notes of ELF files, core files and modules, as readelf -n does: build ids,
USDT probes, ABI and properties; "-" is standard input. Raw notes, as
/sys/kernel/notes has them, do as well.

  elfnotes /bin/ls             a file's notes, one on each line
  elfnotes /sys/kernel/notes   the running kernel's
  elfnotes -json *.so          one JSON object for each note

Flags:
`

// line is a note as -json prints it.
type line struct {
	File   string         `json:"file"`
	Where  string         `json:"where"`
	Offset int64          `json:"offset"`
	Owner  string         `json:"owner"`
	Type   uint32         `json:"type"`
	Kind   string         `json:"kind"`
	Value  elfnotes.Value `json:"value"`
	Error  string         `json:"error,omitempty"`
}

// run prints the notes of every file. It prints the others even if a file cannot be read, or
// not to its end.
func run(ctx context.Context, args []string, stdout *cli.Output) error {
	flags := flag.NewFlagSet("elfnotes", flag.ContinueOnError)
	flags.Usage = func() {
		io.WriteString(flags.Output(), usage)
		flags.PrintDefaults()
	}
	asJSON := flags.Bool("json", false, "print one JSON object per note")
	if err := cli.Parse(flags, args, stdout); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("usage: elfnotes [-json] FILE…|-")
	}
	w := stdout.Buffered()
	defer w.Flush()
	print := printText
	if *asJSON {
		print = func(w *cli.Output, l line) error { return w.JSON(l) }
	}
	var errs []error
	for _, name := range flags.Args() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := file(name, func(l line) error { return print(w, l) }); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(append(errs, w.Flush())...)
}

// file prints the notes of one file.
func file(name string, print func(line) error) error {
	notes, errOf, done, err := open(name)
	if err != nil {
		return err
	}
	defer done()
	for n := range notes {
		l := line{
			File: name, Where: n.Where, Offset: n.Offset, Owner: n.Owner, Type: n.Type,
			Kind: n.Kind(),
		}
		l.Value, err = n.Decode()
		if err != nil {
			l.Value, l.Error = elfnotes.Raw(n.Desc), err.Error()
		}
		if err := print(l); err != nil {
			return err
		}
	}
	return errOf()
}

// open reads an ELF file in place, and any other file as a raw stream of notes, the format of
// the kernel's files. done must be called behind the last note.
func open(name string) (notes iter.Seq[elfnotes.Note], errOf func() error, done func() error,
	err error,
) {
	var f *elfnotes.File
	var raw *os.File
	if name == "-" {
		if raw, err = input(os.Stdin); err == nil {
			f, err = elfnotes.NewFile(raw)
		}
	} else {
		f, err = elfnotes.Open(name)
	}
	if err == nil {
		notes, errOf = f.Notes()
		return notes, errOf, func() error { return errors.Join(f.Close(), raw.Close()) }, nil
	}
	if !errors.Is(err, elfnotes.ErrNotELF) {
		return nil, nil, nil, err
	}
	if raw == nil {
		if raw, err = os.Open(name); err != nil {
			return nil, nil, nil, err
		}
	}
	defer raw.Close()
	notes, errOf, err = readRaw(raw)
	return notes, errOf, func() error { return nil }, err
}

// input returns standard input as a file that can be read at any place: a copy without a name
// if it is a pipe.
func input(in *os.File) (*os.File, error) {
	if st, err := in.Stat(); err != nil || st.Mode().IsRegular() {
		return in, err
	}
	f, err := os.CreateTemp("", "elfnotes-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		var n int64
		if n, err = io.Copy(f, io.LimitReader(in, maxPipe+1)); err == nil && n > maxPipe {
			err = fmt.Errorf("more than %d bytes from a pipe", maxPipe)
		}
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readRaw reads raw notes.
func readRaw(r io.Reader) (iter.Seq[elfnotes.Note], func() error, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxRaw+1))
	if err == nil && len(b) > maxRaw {
		err = fmt.Errorf("%w, and more than %d bytes of raw notes", elfnotes.ErrNotELF, maxRaw)
	}
	if err != nil {
		return nil, nil, err
	}
	notes, errOf := elfnotes.All(b, binary.NativeEndian, 4)
	return notes, errOf, nil
}

// printText prints a note in one line: place, owner and kind, value.
func printText(w *cli.Output, l line) error {
	kind := l.Kind
	if kind == "" {
		kind = fmt.Sprintf("%#x", l.Type)
	}
	if l.Error != "" {
		kind += " (" + l.Error + ")"
	}
	return w.Printf("%s: %s+%#x: %s %s: %s\n", l.File, l.Where, l.Offset, l.Owner, kind,
		l.Value)
}
