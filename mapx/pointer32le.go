//go:build 386 || arm || mipsle

package mapx

import "unsafe"

// pointer is a pointer in a bpf_attr, 8 bytes wide on every machine; as a
// pointer rather than a number it stays right when the stack moves.
type pointer struct {
	p unsafe.Pointer
	_ uint32
}

func newPointer(p unsafe.Pointer) pointer { return pointer{p: p} }
