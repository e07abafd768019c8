//go:build 386 || arm || mipsle

package kernel

import "unsafe"

// addr is a pointer in a bpf_attr, 8 bytes wide on every machine; as a
// pointer rather than a number it stays right when the stack moves.
type addr struct {
	p unsafe.Pointer
	_ uint32
}

func newAddr(p unsafe.Pointer) addr { return addr{p: p} }
