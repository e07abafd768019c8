//go:build mips

package mapx

import "unsafe"

// pointer is a pointer in a bpf_attr, 8 bytes wide on every machine; as a
// pointer rather than a number it stays right when the stack moves.
type pointer struct {
	_ uint32
	p unsafe.Pointer
}

func newPointer(p unsafe.Pointer) pointer { return pointer{p: p} }
