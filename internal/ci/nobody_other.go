//go:build !linux

package main

import (
	"fmt"
	"os"
)

const nobodyFlag = "-as-nobody"

func asNobody([]string) int {
	fmt.Fprintln(os.Stderr, "as nobody: only on Linux")
	return 125
}
