// Command tick fires the USDT probe tick:loop(i) once per interval, as a target for
// tracers:
//
//	tick [-i INTERVAL] [-n COUNT]
//	bpftrace -p PID -e 'usdt::tick:loop { printf("got: %d\n", arg0) }'
package main

import (
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		return cli.Status("tick", run(cli.Context(), os.Args[1:], cli.NewOutput(os.Stdout)), os.Stderr)
	}))
}
