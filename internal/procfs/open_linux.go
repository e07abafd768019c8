package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenInRoot opens a path as the process sees it, below its root directory and
// in its mount namespace. Symbolic links, absolute ones too, are resolved
// inside that root, and special files are opened without waiting (openat2 with
// RESOLVE_IN_ROOT, since Linux 5.6). The caller closes the file.
func OpenInRoot(pid int, name string) (*os.File, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/root"
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, strings.TrimLeft(name, "/"), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir + name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// OpenMapping opens the file behind a mapping itself, whatever became of its
// path: /proc/PID/map_files, which needs CAP_CHECKPOINT_RESTORE (Linux 5.9) or
// CAP_SYS_ADMIN. The caller closes the file.
func OpenMapping(pid int, m *Mapping) (*os.File, error) {
	name := fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), m.Path), nil
}

// FileID returns the device, as Mapping.Dev has it, and the inode of an open file.
func FileID(f *os.File) (dev, inode uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	d := uint64(st.Dev)
	return uint64(unix.Major(d))<<32 | uint64(unix.Minor(d)), st.Ino, nil
}

// ReadMemory reads len(b) bytes of another process at addr
// (process_vm_readv(2); ptrace read permission is needed).
func ReadMemory(pid int, b []byte, addr uint64) error {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	if err != nil {
		return fmt.Errorf("read memory of %d at %#x: %w", pid, addr, err)
	}
	if n != len(b) {
		return fmt.Errorf("read memory of %d at %#x: %d of %d bytes", pid, addr, n, len(b))
	}
	return nil
}

// OpenPID returns a descriptor of a process, which does not come to mean another
// one when the number is used again (pidfd_open(2), since Linux 5.3). The caller
// closes it.
func OpenPID(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// SendSignal sends a signal to the process of an OpenPID descriptor.
func SendSignal(pid *os.File, sig syscall.Signal) error {
	return os.NewSyscallError("pidfd_send_signal", unix.PidfdSendSignal(int(pid.Fd()), sig, nil, 0))
}
