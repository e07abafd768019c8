//go:build amd64 || arm64 || riscv64 || ppc64 || ppc64le || s390x || loong64 || mips64 || mips64le || wasm

package kernel

import "unsafe"

// addr is a pointer in a bpf_attr, 8 bytes wide on every machine; as a
// pointer rather than a number it stays right when the stack moves.
type addr struct {
	p unsafe.Pointer
}

func newAddr(p unsafe.Pointer) addr { return addr{p: p} }
