package sysnames_test

import (
	"fmt"

	"github.com/borescope/borescope/probe/sysnames"
)

// System calls have different numbers on each architecture.
func Example() {
	for _, arch := range []string{"amd64", "arm64"} {
		nr, _ := sysnames.SyscallNumber(arch, "openat")
		fmt.Println(arch, nr, sysnames.Syscall(arch, nr))
	}
	fmt.Println(sysnames.Errno(2), sysnames.Errno(4095))
	// Output:
	// amd64 257 openat
	// arm64 56 openat
	// ENOENT 4095
}
