// Command orcdump prints the ORC unwind data of kernels and kernel modules, as
// objtool --dump=orc does.
//
//	orcdump FILE…
//
// FILE is a vmlinux, a vmlinuz, or a .ko, compressed or not, of any kernel since 4.14. The
// layout of the data, which changed three times, is detected.
package main

import (
	"errors"
	"flag"
	"io"
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/stack"
)

func main() {
	os.Exit(cli.Main(func() int {
		return cli.Status("orcdump", run(os.Args[1:], cli.NewOutput(os.Stdout)), os.Stderr)
	}))
}

const usage = `Usage: orcdump FILE…
Prints the ORC unwind data of kernels and modules, by which kernel stacks are walked,
as objtool --dump=orc does: for each range of code where the caller's stack is.

  orcdump /boot/vmlinuz-$(uname -r)   of a kernel, packed or not
  orcdump nf_tables.ko                of a module
`

func run(args []string, stdout *cli.Output) error {
	fs := flag.NewFlagSet("orcdump", flag.ContinueOnError)
	fs.Usage = func() {
		io.WriteString(fs.Output(), usage)
	}
	if err := cli.Parse(fs, args, stdout); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("no file given")
	}
	w := stdout.Buffered()
	for _, path := range fs.Args() {
		o, err := stack.OpenORC(path)
		if err != nil {
			return errors.Join(err, w.Flush())
		}
		for e := range o.All() {
			w.Println(e)
		}
	}
	return w.Flush()
}
