// Command tick fires the USDT probe tick:loop(i) once per interval, for trying
// tracers:
//
//	tick [-i INTERVAL] [-n COUNT]
//	bpftrace -p PID -e 'usdt::tick:loop { printf("got: %d\n", arg0) }'
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tick:", err)
		os.Exit(1)
	}
}
