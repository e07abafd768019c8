package sysnames_test

import (
	"fmt"

	"github.com/borescope/borescope/probe/sysnames"
)

// System calls have different numbers on each architecture, and for 32-bit programs.
func Example() {
	for _, arch := range []string{"amd64", "arm64"} {
		for _, abi := range []sysnames.ABI{sysnames.Native, sysnames.Compat} {
			nr, _ := sysnames.SyscallNumber(arch, abi, "openat")
			fmt.Println(arch, abi, nr, sysnames.Syscall(arch, abi, nr))
		}
	}
	fmt.Println(sysnames.Errno(2), sysnames.Errno(4095))
	// Output:
	// amd64 native 257 openat
	// amd64 compat 295 openat
	// arm64 native 56 openat
	// arm64 compat 322 openat
	// ENOENT 4095
}
