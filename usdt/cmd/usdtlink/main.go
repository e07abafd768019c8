// Command usdtlink makes the static probes of a Go program visible: it writes the ELF notes
// that tracers look for into the program's file.
//
//	usdtlink [-o FILE] BINARY
//
// Without -o the binary itself is replaced, in one step. Package usdt/static documents the
// source of such a program.
package main

import (
	"context"
	"os"

	"github.com/borescope/borescope/escape"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		escape.Fprintln(os.Stderr, "usdtlink:", err)
		os.Exit(1)
	}
}
