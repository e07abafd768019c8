//go:build 386 || arm || mipsle

package kernel

import "unsafe"

// addr is a pointer in a bpf_attr, which has 8 bytes on every machine. It is a pointer and not
// a number, so that it stays valid when the stack moves.
type addr struct {
	p unsafe.Pointer
	_ uint32
}

func newAddr(p unsafe.Pointer) addr { return addr{p: p} }
