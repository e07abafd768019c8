// Command perfstat counts performance events of a command, a process, CPUs or a cgroup, as
// perf stat does. See README.md.
package main

import (
	"os"

	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("perfstat", run)) }
