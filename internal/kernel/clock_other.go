//go:build !linux

package kernel

// Monotonic is for Linux.
func Monotonic() uint64 { return 0 }

// TAIOffset is for Linux.
func TAIOffset() int64 { return 0 }
