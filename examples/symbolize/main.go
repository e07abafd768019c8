// Command symbolize names addresses: of an ELF file, a process, the kernel, or a
// perf map.
//
//	symbolize [-e FILE | -p PID | -k | -perfmap FILE] [-i] [-a] [-json | -style gnu|llvm] [ADDRESS…]
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "symbolize:", err)
		os.Exit(1)
	}
}
