package procfs

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// servedPatience is how long a file system may take to say of which kind it is: those
// of the kernel's own say it at once.
const servedPatience = 5 * time.Second

// Served tells whether a process answers for what is read of an open file (FUSE): it may
// answer late, never, and differently each time. One that doesn't even say of which
// kind the file system is does; the question stays with a thread until it is answered.
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
