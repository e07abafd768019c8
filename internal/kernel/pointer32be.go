//go:build mips

package kernel

import "unsafe"

// addr is a pointer in a bpf_attr, which has 8 bytes on every machine. It is a pointer and not
// a number, so that it stays valid when the stack moves.
type addr struct {
	_ uint32
	p unsafe.Pointer
}

func newAddr(p unsafe.Pointer) addr { return addr{p: p} }
