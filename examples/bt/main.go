// Command bt parses scripts in bpftrace's language, and prints their errors or, with -fmt
// or -d, the result of a stage of the compiler.
//
//	bt [-fmt | -d STAGE] [-unsafe] FILE [PARAMETER…]
//	bt [-fmt | -d STAGE] [-unsafe] -e SCRIPT [PARAMETER…]
package main

import (
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	stdout, stderr := cli.NewOutput(os.Stdout), cli.NewOutput(os.Stderr)
	os.Exit(cli.Status("bt", run(os.Args[1:], os.Stdin, stdout, stderr), os.Stderr))
}
