package bpf

import "syscall"

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
