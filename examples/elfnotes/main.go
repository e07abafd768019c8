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
	if status := cli.Status("elfnotes", run(context.Background(), os.Args[1:], os.Stdout),
		os.Stderr); status != 0 {
		os.Exit(status)
	}
}
