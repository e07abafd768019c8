// Command symbolize prints the symbols of addresses in an ELF file, a process, the kernel,
// or a perf map.
//
//	symbolize [-e FILE | -p PID | -k | -perfmap FILE] [-i] [-a] [-json | -style gnu|llvm] [ADDRESS…]
package main

import (
	"context"
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		err := run(context.Background(), os.Args[1:], cli.NewOutput(os.Stdout))
		return cli.Status("symbolize", err, os.Stderr)
	}))
}
