package kernel

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are bpf(2) commands, from enum bpf_cmd in include/uapi/linux/bpf.h.
const (
	cmdProgLoad          = 5
	cmdObjPin            = 6
	cmdObjGet            = 7
	cmdProgTestRun       = 10
	cmdMapGetFDByID      = 14
	cmdRawTracepointOpen = 17
	cmdLinkCreate        = 28
	cmdLinkUpdate        = 29
	cmdIterCreate        = 33
)

// bpf makes the system call. The pointers in attr must be of type unsafe.Pointer, or the
// caller must pin what they point to.
func bpf(cmd uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	r, errno := call(cmd, attr, size)
	if errno != 0 {
		return -1, os.NewSyscallError("bpf", errno)
	}
	return r, nil
}

func mapCall(cmd MapCommand, attr unsafe.Pointer, size uintptr) error {
	if _, errno := call(uintptr(cmd), attr, size); errno != 0 {
		return errno
	}
	return nil
}

func call(cmd uintptr, attr unsafe.Pointer, size uintptr) (int, unix.Errno) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(attr), size)
		switch errno {
		case unix.EINTR, unix.EAGAIN:
			// BPF_PROG_LOAD and similar commands fail like this on signals
			// (kernel/bpf/verifier.c).
			continue
		}
		return int(r), errno
	}
}
