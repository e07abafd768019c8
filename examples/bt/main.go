// Command bt runs scripts in bpftrace's language, or prints their errors, or what a stage of the
// compiler makes of them.
//
//	bt [-c COMMAND] [-f FORMAT] [-p PID] FILE [PARAMETER]… [-- --OPTION=VALUE…]
//	bt [-c COMMAND] [-f FORMAT] [-p PID] -e SCRIPT [PARAMETER]… [-- --OPTION=VALUE…]
//	bt -check | -fmt | -d STAGE FILE
package main

import (
	"errors"
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		stdout, stderr := cli.NewOutput(os.Stdout), cli.NewOutput(os.Stderr)
		status, err := run(cli.Context(), os.Args[1:], os.Stdin, stdout, stderr)
		switch {
		case errors.Is(err, errSaid):
			status = 1
		case err != nil:
			status = cli.Status("bt", err, os.Stderr)
		}
		return status
	}))
}
