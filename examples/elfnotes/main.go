// Command elfnotes prints the ELF notes of files: executables, libraries, debug
// and core files, and raw streams such as /sys/kernel/notes.
//
//	elfnotes [-json] FILE…|-
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "elfnotes:", err)
		os.Exit(1)
	}
}
