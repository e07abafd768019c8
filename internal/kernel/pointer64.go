//go:build amd64 || arm64 || riscv64 || ppc64 || ppc64le || s390x || loong64 || mips64 || mips64le || wasm

package kernel

import "unsafe"

// addr is a pointer in a bpf_attr, which has 8 bytes on every machine. It is a pointer and not
// a number, so that it stays valid when the stack moves.
type addr struct {
	p unsafe.Pointer
}

func newAddr(p unsafe.Pointer) addr { return addr{p: p} }
