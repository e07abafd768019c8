// Command lsym finds the addresses of names: in an ELF file, a process, or the
// kernel.
//
//	lsym [-e FILE | -p PID | -k] [-json] [-s] PATTERN…
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lsym:", err)
		os.Exit(1)
	}
}
