//go:build amd64 || arm64 || riscv64 || ppc64 || ppc64le || s390x || loong64 || mips64 || mips64le || wasm

package mapx

import "unsafe"

// pointer is a pointer in a bpf_attr, 8 bytes wide on every machine; as a
// pointer rather than a number it stays right when the stack moves.
type pointer struct {
	p unsafe.Pointer
}

func newPointer(p unsafe.Pointer) pointer { return pointer{p: p} }
