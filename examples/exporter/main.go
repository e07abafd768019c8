// Command exporter runs a directory of scripts in bpftrace's language, and has their maps as metrics
// for Prometheus:
//
//	exporter -scripts DIR [-listen ADDRESS]
package main

import (
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		return cli.Status("exporter", run(cli.Context(), os.Args[1:], cli.NewOutput(os.Stdout)), os.Stderr)
	}))
}
