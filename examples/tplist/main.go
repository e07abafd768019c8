// Command tplist lists the USDT probes of files and processes with their arguments, and the
// kernel's tracepoints.
//
//	tplist [-json] [-v] [-p PID] [-l LIB] [FILE…] [PATTERN]
package main

import (
	"os"
	"runtime/debug"

	"github.com/borescope/borescope/probe/tool/cli"
)

// fewCollections makes garbage collections rare, as suits a process that lists and ends: a
// thousand probes take a megabyte or two, which need not be collected three times.
func fewCollections() { debug.SetGCPercent(800) }

func main() {
	fewCollections()
	os.Exit(cli.Main(func() int {
		return cli.Status("tplist", run(cli.Context(), os.Args[1:], cli.NewOutput(os.Stdout)), os.Stderr)
	}))
}
