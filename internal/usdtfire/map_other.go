//go:build !linux

package usdtfire

import "unsafe"

// Region is for Linux.
type Region []byte

// At is for Linux.
func (r Region) At(off uintptr) unsafe.Pointer { return unsafe.Pointer(&r[off]) }
