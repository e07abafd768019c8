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

// maxStream is the limit for standard input and raw streams, in bytes.
const maxStream = 1 << 30

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
// the kernel's files.
func open(name string) (notes iter.Seq[elfnotes.Note], errOf func() error, done func() error,
	err error,
) {
	done = func() error { return nil }
	if name != "-" {
		f, err := elfnotes.Open(name)
		if err == nil {
			notes, errOf = f.Notes()
			return notes, errOf, f.Close, nil
		}
		if !errors.Is(err, elfnotes.ErrNotELF) {
			return nil, nil, nil, err
		}
	}
	b, err := readAll(name)
	if err != nil {
		return nil, nil, nil, err
	}
	f, err := elfnotes.NewFile(elfnotes.Bytes(b))
	switch {
	case err == nil:
		notes, errOf = f.Notes()
	case errors.Is(err, elfnotes.ErrNotELF):
		notes, errOf = elfnotes.All(b, binary.NativeEndian, 4)
	default:
		return nil, nil, nil, err
	}
	return notes, errOf, done, nil
}

func readAll(name string) ([]byte, error) {
	in := os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxStream+1))
	if err == nil && len(b) > maxStream {
		err = fmt.Errorf("more than %d bytes", maxStream)
	}
	return b, err
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
