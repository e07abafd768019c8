// Command elfnotes prints the ELF notes of files: executables, libraries, debug and core
// files, and raw streams such as /sys/kernel/notes.
//
//	elfnotes [-json] FILE…|-
package main

import (
	"context"
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		err := run(context.Background(), os.Args[1:], cli.NewOutput(os.Stdout))
		return cli.Status("elfnotes", err, os.Stderr)
	}))
}
