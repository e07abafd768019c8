//go:build !linux

package usdtfire

import "unsafe"

// Region is only supported on Linux.
type Region []byte

// At is only supported on Linux.
func (r Region) At(off uintptr) unsafe.Pointer { return unsafe.Pointer(&r[off]) }
