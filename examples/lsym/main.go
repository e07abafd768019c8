// Command lsym finds the addresses of symbols in an ELF file, a process, or the kernel.
//
//	lsym [-e FILE | -p PID | -k] [-json] [-s] PATTERN…
package main

import (
	"context"
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		err := run(context.Background(), os.Args[1:], cli.NewOutput(os.Stdout))
		return cli.Status("lsym", err, os.Stderr)
	}))
}
