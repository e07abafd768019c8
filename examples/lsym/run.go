package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/symbol"
)

const usage = `lsym finds the addresses of names; * ? [a-z] are patterns, /…/ is a regular expression.

  lsym -e /usr/bin/node 'node::Buffer::*'   C++ names with or without parameters
  lsym -p 1234 malloc                       in a process, with its addresses
  lsym -k 'vfs_*'                           in the kernel and its modules

A line holds address, size, kind, name and module; of a file also the offset in it.

Flags:
`

// matcher finds symbols by name.
type matcher interface {
	Match(p *symbol.Pattern) ([]symbol.Symbol, error)
}

// run is the command.
func run(ctx context.Context, args []string, stdout *cli.Output) error {
	var file string
	var pid int
	var kernel, asJSON, data bool
	fs := flag.NewFlagSet("lsym", flag.ContinueOnError)
	fs.Usage = func() {
		io.WriteString(fs.Output(), usage)
		fs.PrintDefaults()
	}
	fs.StringVar(&file, "e", "", "ELF `FILE`")
	fs.IntVar(&pid, "p", 0, "process `PID`")
	fs.BoolVar(&kernel, "k", false, "the kernel")
	fs.BoolVar(&data, "d", false, "variables too")
	fs.BoolVar(&asJSON, "json", false, "one JSON object for each symbol")
	if err := cli.Parse(fs, args, stdout); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("give a name or pattern")
	}
	m, closer, err := open(file, pid, kernel, data)
	if err != nil {
		return err
	}
	defer closer.Close()
	w := stdout.Buffered()
	for _, arg := range fs.Args() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := list(w, m, arg, data, asJSON); err != nil {
			return err
		}
	}
	return w.Flush()
}

// nothing is an io.Closer that does nothing.
type nothing struct{}

func (nothing) Close() error { return nil }

func open(file string, pid int, kernel, data bool) (matcher, io.Closer, error) {
	switch {
	case file != "" && pid == 0 && !kernel:
		e, err := symbol.OpenELF(file, nil)
		return e, e, err
	case pid != 0 && file == "" && !kernel:
		p, err := symbol.OpenProcess(pid, nil)
		return p, p, err
	case kernel && file == "" && pid == 0:
		k, err := symbol.OpenKernel(&symbol.KernelOptions{Data: data})
		return k, nothing{}, err
	}
	return nil, nil, errors.New("give one of -e FILE, -p PID and -k")
}

// list writes the symbols that match arg. It is an error if none does.
func list(w *cli.Output, m matcher, arg string, data, asJSON bool) error {
	p, err := symbol.ParsePattern(arg)
	if err != nil {
		return err
	}
	syms, err := m.Match(p)
	if err != nil {
		return err
	}
	n := 0
	for _, s := range syms {
		if s.Kind == symbol.KindData && !data {
			continue
		}
		n++
		if err := printSymbol(w, &s, asJSON); err != nil {
			return err
		}
	}
	if n == 0 {
		return fmt.Errorf("%s: %w", arg, symbol.ErrNoSymbol)
	}
	return nil
}

// object is the JSON form of a symbol.
type object struct {
	Addr   string `json:"addr"`
	Size   uint64 `json:"size"`
	Offset string `json:"offset,omitempty"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Module string `json:"module,omitempty"`
}

func printSymbol(w *cli.Output, s *symbol.Symbol, asJSON bool) error {
	offset := ""
	if s.HasOffset {
		offset = fmt.Sprintf("%#x", s.Offset)
	}
	if asJSON {
		return w.JSON(object{
			fmt.Sprintf("%#x", s.Addr), s.Size, offset, s.Kind.String(), s.Name,
			s.Module,
		})
	}
	if offset == "" {
		offset = "-"
	}
	return w.Printf("%#016x %6d %-6s %10s %s %s\n", s.Addr, s.Size, s.Kind, offset, s.Name,
		s.Module)
}
