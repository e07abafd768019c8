package main

import (
	"fmt"
	"strconv"

	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/symbol"
)

// printFunc writes the frames of one address.
type printFunc func(w *cli.Output, pc uint64, frames []symbol.Frame) error

func printer(c *config) (printFunc, error) {
	// Without inlined calls both tools print the innermost position, addr2line with the
	// innermost name and llvm-symbolizer with the outermost.
	shown := func(frames []symbol.Frame) []symbol.Frame {
		if c.inlines {
			return frames
		}
		if c.style == "llvm" {
			frames[0].Name = frames[len(frames)-1].Name
		}
		return frames[:1]
	}
	switch {
	case c.json && c.style != "":
		return nil, fmt.Errorf("-json and -style exclude each other")
	case c.json:
		return func(w *cli.Output, pc uint64, frames []symbol.Frame) error {
			return printJSON(w, pc, frames, c.inlines)
		}, nil
	case c.style == "gnu":
		return func(w *cli.Output, _ uint64, frames []symbol.Frame) error {
			for _, f := range shown(frames) {
				if err := w.Printf("%s\n%s:%s\n", or(f.Name, "??"), or(f.File, "??"),
					gnuLine(f)); err != nil {
					return err
				}
			}
			return nil
		}, nil
	case c.style == "llvm":
		return func(w *cli.Output, _ uint64, frames []symbol.Frame) error {
			for _, f := range shown(frames) {
				if err := w.Printf("%s\n%s:%d:%d\n", or(f.Name, "??"), or(f.File, "??"), f.Line,
					f.Column); err != nil {
					return err
				}
			}
			return w.Println()
		}, nil
	case c.style == "":
		var b []byte
		return func(w *cli.Output, pc uint64, frames []symbol.Frame) error {
			b = appendText(b[:0], pc, frames, c.inlines)
			_, err := w.Raw().Write(b)
			return err
		}, nil
	}
	return nil, fmt.Errorf("-style %s: want gnu or llvm", c.style)
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// gnuLine formats a line number as addr2line does: "?" if only the file is known.
func gnuLine(f symbol.Frame) string {
	if f.Line == 0 && f.File != "" {
		return "?"
	}
	return strconv.Itoa(f.Line)
}

// appendText appends a line for an address, and one for each function that its code is
// inlined in. It does not use fmt, because there may be millions of addresses.
func appendText(b []byte, pc uint64, frames []symbol.Frame, inlines bool) []byte {
	if !inlines {
		frames = frames[len(frames)-1:]
	}
	b = strconv.AppendUint(append(b, "0x"...), pc, 16)
	for i := range frames {
		f, sep := &frames[i], " "
		if i > 0 {
			sep = "    in "
		}
		b = append(append(b, sep...), cli.Escape(f.Name)...)
		switch {
		case f.Name == "":
			b = append(append(append(b, "?? ("...), f.Reason.String()...), ')')
		case f.Inlined:
			b = append(b, " (inlined)"...)
		default:
			b = strconv.AppendUint(append(b, "+0x"...), f.Offset, 16)
		}
		if f.File != "" {
			b = append(append(append(b, ' '), cli.Escape(f.File)...), ':')
			b = strconv.AppendInt(b, int64(f.Line), 10)
		}
		if i == len(frames)-1 && f.Module != "" {
			b = append(append(append(b, " ("...), cli.Escape(f.Module)...), ')')
		}
		if why := f.NoLine; why != symbol.ReasonNone && why != f.Reason &&
			(f.Name != "" || why != symbol.ReasonNoLine) {
			b = append(append(append(b, " [no line: "...), why.String()...), ']')
		}
		b = append(b, '\n')
	}
	return b
}

// object is an address as -json prints it: the function that the code belongs to, and the
// inlined calls, innermost first.
type object struct {
	Addr    string   `json:"addr"`
	Name    string   `json:"name,omitempty"`
	Offset  uint64   `json:"offset"`
	Module  string   `json:"module,omitempty"`
	File    string   `json:"file,omitempty"`
	Line    int      `json:"line,omitempty"`
	Inlined []inline `json:"inlined,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	NoLine  string   `json:"no_line,omitempty"` // why there is no line
}

type inline struct {
	Name   string `json:"name"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	NoLine string `json:"no_line,omitempty"`
}

func printJSON(w *cli.Output, pc uint64, frames []symbol.Frame, inlines bool) error {
	f := frames[len(frames)-1]
	o := object{
		Addr: fmt.Sprintf("%#x", pc), Name: f.Name, Offset: f.Offset, Module: f.Module,
		File: f.File, Line: f.Line, Reason: f.Reason.String(),
		NoLine: f.NoLine.String(),
	}
	if inlines {
		for _, f := range frames[:len(frames)-1] {
			o.Inlined = append(o.Inlined, inline{f.Name, f.File, f.Line, f.NoLine.String()})
		}
	}
	return w.JSON(o)
}
