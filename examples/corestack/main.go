// Command corestack prints the stacks of all threads in core files.
//
//	corestack [-json] [-python] [-root DIR] CORE…
//
// It unwinds with call frame information, as debuggers do, and with frame pointers if there
// is none. Programs and libraries are found at the paths that the core file contains, below
// -root. With -python the frames of CPython 3.11 to 3.13 take the place of those of its
// interpreter. With -json it prints an object per thread:
// {"core", "tid", "frames": [{"pc", "name", "module", "how"}], "reason"}.
package main

import (
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		err := run(os.Args[1:], cli.NewOutput(os.Stdout), cli.NewOutput(os.Stderr))
		return cli.Status("corestack", err, os.Stderr)
	}))
}
