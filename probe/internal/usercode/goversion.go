package usercode

import (
	"bytes"
	"encoding/binary"
	"go/version"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// GoVersion returns the version of the toolchain that built a program, "" if it does not tell. It reads what
// debug/buildinfo does, which brings readers of four other formats with it.
func GoVersion(f *elffile.File) string {
	s := f.Section(".go.buildinfo")
	if s == nil {
		return ""
	}
	b, err := f.Data(s)
	const header = 32
	if err != nil || len(b) < header || !bytes.HasPrefix(b, []byte("\xff Go buildinf:")) {
		return ""
	}
	const inline = 2 // a flag since Go 1.18
	if b[15]&inline != 0 {
		n, size := binary.Uvarint(b[header:])
		if rest := b[header+max(size, 0):]; size > 0 && n <= uint64(len(rest)) {
			return string(rest[:n])
		}
		return ""
	}
	// Before, it had the address of a string: the address of its bytes, and their number. GoidOffset knows
	// versions of 64-bit machines only.
	const longest = 256
	text, err := userfile.Code(f, f.Order.Uint64(b[16:]), 16)
	if err != nil || b[14] != 8 {
		return ""
	}
	n := f.Order.Uint64(text[8:])
	if n > longest {
		return ""
	}
	text, err = userfile.Code(f, f.Order.Uint64(text), n)
	if err != nil {
		return ""
	}
	return string(text)
}

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
