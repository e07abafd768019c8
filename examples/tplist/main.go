// Command tplist lists USDT probes of files and processes with their arguments,
// and the kernel's tracepoints.
//
//	tplist [-json] [-v] [-p PID] [FILE…] [PATTERN]
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
		fmt.Fprintln(os.Stderr, "tplist:", err)
		os.Exit(1)
	}
}
