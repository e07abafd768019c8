package procfs

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// servedPatience bounds how long statfs of a file system may take: the kernel's own file
// systems return at once.
const servedPatience = 5 * time.Second

// Served reports whether a process serves an open file (FUSE), so that reads may be late,
// never return, or differ each time. It also returns true if the file system does not answer
// statfs in time; a thread stays blocked until it does.
func Served(f int) (bool, error) {
	fd, err := unix.FcntlInt(uintptr(f), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false, os.NewSyscallError("fcntl", err)
	}
	var st unix.Statfs_t
	done := make(chan error, 1)
	go func() {
		defer unix.Close(fd)
		done <- unix.Fstatfs(fd, &st)
	}()
	select {
	case err := <-done:
		return err == nil && uint32(st.Type) == unix.FUSE_SUPER_MAGIC, os.NewSyscallError("fstatfs", err)
	case <-time.After(servedPatience):
		return true, nil
	}
}
