package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/probe/tool/cli"
)

// run links one file.
func run(_ context.Context, args []string, stdout *cli.Output) error {
	flags := flag.NewFlagSet("usdtlink", flag.ContinueOnError)
	out := flags.String("o", "", "write the result to this file")
	if err := cli.Parse(flags, args, stdout); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return cli.Usage("usdtlink", errors.New("want one BINARY"))
	}
	in := flags.Arg(0)
	if *out == "" {
		*out = in
	}
	f, err := procfs.Open(in)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	linked, probes, err := linkMapped(f, procfs.Stored(st))
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	mode := st.Mode().Perm()
	err = cli.WriteFile(*out, mode, func(w io.Writer) error { _, err := w.Write(linked); return err })
	if err == nil {
		err = os.Chmod(*out, mode) // without the umask
	}
	if err != nil {
		return err
	}
	for _, p := range probes {
		stdout.Printf("%s %s\n", p.name, p.spec)
	}
	return nil
}

// The linked program is in memory as a whole. A program has no holes, but some file systems
// compress it to a third.
const leastSize, maxExpansion = 4 << 20, 4

// linkMapped links a file that takes up stored bytes.
func linkMapped(file *os.File, stored int64) ([]byte, []probe, error) {
	f, err := elffile.NewBorrowed(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if most := leastSize + maxExpansion*stored; f.Size() > most {
		return nil, nil, fmt.Errorf("%d bytes, of which %d are stored, more than %d: %w", f.Size(), stored,
			most, elffile.ErrTooLarge)
	}
	b, err := f.Whole(nil)
	if err != nil {
		return nil, nil, err
	}
	return linkFile(f, b)
}
