package usercode

import (
	"go/version"
	"strings"
)

// GoRegs maps architectures to the DWARF number of the register that holds the current g in
// ABIInternal: r14 on amd64, x28 on arm64.
var GoRegs = map[string]int{"amd64": 14, "arm64": 28}

// GoidOffset returns the offset of g.goid in runtime.g on 64-bit machines. It follows stack (2
// words), stackguard0 and 1, _panic, _defer, m, sched (gobuf: 7 words up to Go 1.24, 6 from
// 1.25, which dropped ret), syscallsp, syscallpc, from 1.23 syscallbp, stktopsp, param, and
// atomicstatus and stackLock (4 bytes each). It is 0 for versions with an unknown runtime:
// future ones, and builds between two releases. TestGoidOffset compares it with the DWARF of a
// program of the running toolchain.
func GoidOffset(v string) int64 {
	v, _, _ = strings.Cut(v, " ") // "go1.25.1 X:nodwarf5"
	lang := version.Lang(v)
	switch {
	case lang == "" || version.Compare(lang, "go1.27") >= 0 || version.Compare(lang, "go1.17") < 0:
		return 0
	case version.Compare(lang, "go1.25") >= 0:
		return 152
	case version.Compare(lang, "go1.23") >= 0:
		return 160
	}
	return 152
}
