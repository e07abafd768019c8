package mapx

import (
	"syscall"
	"unsafe"
)

// supported is nil where live maps can be read.
func supported(string) error { return nil }

// bpf calls bpf(2), again where a signal interrupted it.
func bpf(cmd int, attr unsafe.Pointer, size uintptr) error {
	for {
		_, _, errno := syscall.Syscall(sysBPF, uintptr(cmd), uintptr(attr), size)
		if errno == syscall.EAGAIN {
			continue
		}
		if errno != 0 {
			return errno
		}
		return nil
	}
}
