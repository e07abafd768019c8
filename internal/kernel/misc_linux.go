package kernel

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// RaiseMemlock lifts RLIMIT_MEMLOCK for this process. Kernels before 5.11 account BPF maps and
// programs to it, and its default is 64 KiB. Later kernels account them to the memory cgroup
// (commit 97306be45fbe); RaiseMemlock changes nothing there. It needs CAP_SYS_RESOURCE if the
// hard limit is too low.
func RaiseMemlock() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return os.NewSyscallError("uname", err)
	}
	if !older(unix.ByteSliceToString(u.Release[:]), 5, 11) {
		return nil
	}
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	return os.NewSyscallError("setrlimit RLIMIT_MEMLOCK", unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit))
}

// older reports whether a release is older than the given version, by its first two numbers.
func older(release string, major, minor int) bool {
	var v [2]int
	i := 0
	for _, c := range release {
		if c >= '0' && c <= '9' {
			v[i] = v[i]*10 + int(c-'0')
		} else if i++; c != '.' || i > 1 {
			break
		}
	}
	return v[0] < major || v[0] == major && v[1] < minor
}

// closers is the number of closers that run at a time.
const closers = 32

// CloseAll runs the closers from last to first, in parallel if there are many, and returns
// their errors when all are done. Removing a kprobe or uprobe waits for an RCU grace period,
// which parallel removals share.
func CloseAll(list []func() error) error {
	if len(list) < 2*closers {
		var err error
		for i := len(list) - 1; i >= 0; i-- {
			err = errors.Join(err, list[i]())
		}
		return err
	}
	errs := make([]error, closers)
	var wg sync.WaitGroup
	for w := range closers {
		wg.Go(func() {
			for i := len(list) - 1 - w; i >= 0; i -= closers {
				errs[w] = errors.Join(errs[w], list[i]())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// OpenKernfs opens a file of a kernfs by its id: for example a control group's, since Linux
// 5.5 (commit 40430452fd5d). mount is an open directory of that kernfs. It needs
// CAP_DAC_READ_SEARCH. The caller closes the file.
func OpenKernfs(mount int, id uint64) (*os.File, error) {
	const fileIDKernfs = 0xfe // FILEID_KERNFS, include/linux/exportfs.h
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], id)
	fd, err := unix.OpenByHandleAt(mount, unix.NewFileHandle(fileIDKernfs, b[:]),
		unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("open_by_handle_at", err)
	}
	return os.NewFile(uintptr(fd), "kernfs"), nil
}
