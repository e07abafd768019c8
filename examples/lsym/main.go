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
	if status := cli.Status("lsym", run(context.Background(), os.Args[1:], os.Stdout),
		os.Stderr); status != 0 {
		os.Exit(status)
	}
}
