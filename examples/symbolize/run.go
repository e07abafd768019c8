package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/symbol"
)

// config holds the flags.
type config struct {
	file, perfmap string
	pid           int
	kernel        bool
	inlines, raw  bool
	json          bool
	style         string
	stdin         io.Reader
}

const usage = `symbolize names addresses, given as arguments or one a line on standard input.

  symbolize -e /bin/bash 0x31ad0       addresses as the file numbers them
  symbolize -p 1234 7f22334455         addresses in a process
  symbolize -k < addresses             kernel addresses
  symbolize -perfmap /tmp/perf-7.map 7f00

Flags:
`

// run is the command.
func run(ctx context.Context, args []string, stdout *cli.Output) error {
	c := config{stdin: os.Stdin}
	fs := flag.NewFlagSet("symbolize", flag.ContinueOnError)
	fs.Usage = func() {
		io.WriteString(fs.Output(), usage)
		fs.PrintDefaults()
	}
	fs.StringVar(&c.file, "e", "", "ELF `FILE`; its separate debug file is found by build-id or link")
	fs.IntVar(&c.pid, "p", 0, "process `PID`")
	fs.BoolVar(&c.kernel, "k", false, "the kernel")
	fs.StringVar(&c.perfmap, "perfmap", "", "perf map `FILE` of a JIT compiler")
	fs.BoolVar(&c.inlines, "i", false, "show the functions that are inlined at the address too")
	fs.BoolVar(&c.raw, "a", false, "leave C++ and Rust names as they are: mangled")
	fs.BoolVar(&c.json, "json", false, "one JSON object for each address")
	fs.StringVar(&c.style, "style", "",
		"write like addr2line -f (`gnu`) or like llvm-symbolizer (llvm)")
	if err := cli.Parse(fs, args, stdout); err != nil {
		return err
	}
	return symbolize(ctx, &c, fs.Args(), stdout)
}

// symbolize prints the symbols of the addresses in args, or in standard input if args is
// empty.
func symbolize(ctx context.Context, c *config, args []string, stdout *cli.Output) error {
	r, done, err := open(c)
	if err != nil {
		return err
	}
	defer done()
	print, err := printer(c)
	if err != nil {
		return err
	}
	w := stdout.Buffered()
	var frames []symbol.Frame
	one := func(arg string) error {
		pc, err := parseAddr(arg)
		if err != nil {
			return err
		}
		frames = r.Resolve(frames[:0], []uint64{pc})
		return print(w, pc, frames)
	}
	if len(args) > 0 {
		for _, a := range args {
			if err := one(a); err != nil {
				return errors.Join(err, w.Flush())
			}
		}
		return w.Flush()
	}
	// Flush the output before each read of input: a script may write an address and wait for
	// the answer.
	sc := bufio.NewScanner(flushed{c.stdin, w})
	for sc.Scan() && ctx.Err() == nil {
		if line := strings.TrimSpace(sc.Text()); line != "" {
			if err := one(line); err != nil {
				return errors.Join(err, w.Flush())
			}
		}
	}
	return errors.Join(sc.Err(), w.Flush())
}

// flushed is a reader that flushes w before it reads.
type flushed struct {
	io.Reader
	w *cli.Output
}

// Read implements io.Reader.
func (f flushed) Read(b []byte) (int, error) {
	if err := f.w.Flush(); err != nil {
		return 0, err
	}
	return f.Reader.Read(b)
}

func parseAddr(s string) (uint64, error) {
	digits := strings.TrimPrefix(strings.ToLower(s), "0x")
	pc, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("address %q: want a hexadecimal number", s)
	}
	return pc, nil
}

// debugDirs returns the directories of debug files: that of distributions' packages, and the
// cache of a debuginfod client (debuginfod_find_debuginfo(3)).
func debugDirs(getenv func(string) string) []string {
	cache := getenv("DEBUGINFOD_CACHE_PATH")
	if cache == "" {
		dir := getenv("XDG_CACHE_HOME")
		if dir == "" && getenv("HOME") != "" {
			dir = filepath.Join(getenv("HOME"), ".cache")
		}
		if dir != "" {
			cache = filepath.Join(dir, "debuginfod_client")
		}
	}
	if cache == "" {
		return nil
	}
	return []string{"/usr/lib/debug", cache}
}

// open opens the file, process, kernel or perf map that the addresses belong to.
func open(c *config) (r symbol.Resolver, done func(), err error) {
	n := 0
	for _, set := range []bool{c.file != "", c.pid != 0, c.kernel, c.perfmap != ""} {
		if set {
			n++
		}
	}
	if n != 1 {
		return nil, nil, errors.New("give one of -e FILE, -p PID, -k and -perfmap FILE")
	}
	nothing := func() {}
	switch {
	case c.file != "":
		e, err := symbol.OpenELF(c.file, &symbol.ELFOptions{
			Source: true, RawNames: c.raw, DebugDirs: debugDirs(os.Getenv),
		})
		if err != nil {
			return nil, nil, err
		}
		return e, func() { e.Close() }, nil
	case c.pid != 0:
		p, err := symbol.OpenProcess(c.pid, &symbol.Options{
			Source: true, RawNames: c.raw, DebugDirs: debugDirs(os.Getenv),
		})
		if err != nil {
			return nil, nil, err
		}
		return p, func() { p.Close() }, nil
	case c.kernel:
		k, err := symbol.OpenKernel(&symbol.KernelOptions{Data: true, Source: true})
		if err != nil {
			return nil, nil, err
		}
		return k, func() { k.Close() }, k.Err()
	}
	// A perf map may be another user's: a FIFO would wait for its writer.
	f, err := hostfs.Dir(filepath.Dir(c.perfmap)).Open(filepath.Base(c.perfmap))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	m, err := symbol.ParsePerfMap(f)
	return m, nothing, err
}
