// Command perfstat counts performance events of a command, a process, CPUs or a
// cgroup, as perf stat does; see README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/borescope/borescope/internal/privileges"
	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if status := cli.Status("perfstat", run(privileges.Alone(ctx), os.Args[1:], os.Stdout), os.Stderr); status != 0 {
		os.Exit(status)
	}
}
