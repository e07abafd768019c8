// Command usdtlink makes the static probes of a Go program visible: it writes the ELF notes
// that tracers look for into the program's file.
//
//	usdtlink [-o FILE] BINARY
//
// Without -o the binary itself is replaced, in one step. Package usdt/static documents the
// source of such a program.
package main

import (
	"context"
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		err := run(context.Background(), os.Args[1:], cli.NewOutput(os.Stdout))
		return cli.Status("usdtlink", err, os.Stderr)
	}))
}
