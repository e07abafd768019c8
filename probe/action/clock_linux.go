package action

import (
	"syscall"
	"unsafe"
)

// monotonic is CLOCK_MONOTONIC in nanoseconds, as programs read it. Package
// time keeps its own monotonic clock to itself.
func monotonic() uint64 {
	var ts syscall.Timespec
	const clockMonotonic = 1 // CLOCK_MONOTONIC, include/uapi/linux/time.h
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0
	}
	return uint64(ts.Nano())
}
