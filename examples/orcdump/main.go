// Command orcdump prints the ORC unwind data of kernels and kernel modules, as
// objtool --dump=orc does.
//
//	orcdump FILE…
//
// FILE is a vmlinux, a vmlinuz, or a .ko, compressed or not, of any kernel since
// 4.14: the layout of the data, which changed three times, is found out.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/borescope/borescope/stack"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "orcdump:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("orcdump", flag.ContinueOnError)
	fs.SetOutput(stderr)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("no file given")
	}
	w := bufio.NewWriter(stdout)
	for _, path := range fs.Args() {
		o, err := stack.OpenORC(path)
		if err != nil {
			return errors.Join(err, w.Flush())
		}
		for e := range o.All() {
			fmt.Fprintln(w, e)
		}
	}
	return w.Flush()
}
