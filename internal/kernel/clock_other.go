//go:build !linux

package kernel

// Monotonic is only supported on Linux.
func Monotonic() uint64 { return 0 }

// Boottime is only supported on Linux.
func Boottime() uint64 { return 0 }

// TAIOffset is only supported on Linux.
func TAIOffset() int64 { return 0 }
