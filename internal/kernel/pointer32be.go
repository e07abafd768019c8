//go:build mips

package kernel

import "unsafe"

// addr is a pointer in a bpf_attr, 8 bytes wide on every machine; as a
// pointer rather than a number it stays right when the stack moves.
type addr struct {
	_ uint32
	p unsafe.Pointer
}

func newAddr(p unsafe.Pointer) addr { return addr{p: p} }
