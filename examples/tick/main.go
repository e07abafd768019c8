// Command tick fires the USDT probe tick:loop(i) once per interval, as a target for
// tracers:
//
//	tick [-i INTERVAL] [-n COUNT]
//	bpftrace -p PID -e 'usdt::tick:loop { printf("got: %d\n", arg0) }'
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if status := cli.Status("tick", run(ctx, os.Args[1:], cli.NewOutput(os.Stdout)),
		os.Stderr); status != 0 {
		os.Exit(status)
	}
}
