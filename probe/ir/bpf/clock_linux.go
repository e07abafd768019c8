package bpf

import (
	"syscall"
	"unsafe"
)

// Clocks of include/uapi/linux/time.h.
const (
	clockMonotonic = 1
	clockTAI       = 11
)

// clock reads a clock, in nanoseconds.
func clock(id uintptr) int64 {
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0
	}
	return ts.Nano()
}

// Monotonic is CLOCK_MONOTONIC in nanoseconds, as programs read it. Package
// time keeps its own monotonic clock to itself.
func Monotonic() uint64 { return uint64(clock(clockMonotonic)) }

// taiOffset is how far CLOCK_TAI is ahead of CLOCK_MONOTONIC: read between two
// readings of the other, and as close to them as a few attempts come.
func taiOffset() int64 {
	best, offset := int64(-1), int64(0)
	for range 5 {
		before := clock(clockMonotonic)
		tai := clock(clockTAI)
		after := clock(clockMonotonic)
		if d := after - before; best < 0 || d < best {
			best, offset = d, tai-(before+d/2)
		}
	}
	return offset
}

// pidNamespace is the device and inode of this process's pid namespace, the
// device as the kernel has it (MKDEV, include/linux/kdev_t.h) and not as stat
// gives it (new_encode_dev).
func pidNamespace() (dev, ino uint64) {
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &st); err != nil {
		return 0, 0
	}
	major, minor := uint64(st.Dev)>>8&0xfff, uint64(st.Dev)&0xff|uint64(st.Dev)>>12&^0xff
	return major<<20 | minor, st.Ino
}
