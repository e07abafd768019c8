package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

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
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	linked, probes, err := link(b)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	if err := replace(*out, linked, st.Mode().Perm()); err != nil {
		return err
	}
	for _, p := range probes {
		stdout.Printf("%s %s\n", p.name, p.spec)
	}
	return nil
}

// replace replaces a file atomically: it writes another one and renames it. The file of a
// running program cannot be written to.
func replace(path string, b []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".usdtlink-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
