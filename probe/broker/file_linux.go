package broker

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/probe"
)

// file describes the file that a path of a user probe leads to.
type file struct {
	// real is the path without links, in the root that it was looked up in.
	real  string
	id    probe.FileID
	owner uint32
	// privileged says which privileges the kernel gives programs from it; "" is none.
	privileged string
}

// inspect returns the file that a path leads to in a process's root (procfs.TargetPath),
// after checking that it can be read. It never waits for something that is no regular
// file.
func inspect(path string) (*file, error) {
	place, real, err := procfs.OpenReal(path)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	fd := int(place.Fd())
	self := "/proc/self/fd/" + strconv.Itoa(fd)
	// While the kernel reads the instruction to put a breakpoint there, no process on the
	// machine can fork (dup_mmap_sem, kernel/events/uprobes.c), so it must not wait for a
	// process. Nor must this.
	pid, _, ok := procfs.TargetPath(path)
	if !ok {
		pid = os.Getpid()
	}
	if err := procfs.CheckAttachable(fd, pid); err != nil {
		return nil, fmt.Errorf("%w: %w", err, unix.EPERM)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("not a regular file: %w", unix.EINVAL)
	}
	f := &file{
		real: real,
		id:   probe.FileID{Device: uint64(st.Dev), Inode: st.Ino, Changed: st.Ctim.Nano()}, owner: st.Uid,
	}
	n, err := unix.Getxattr(self, "security.capability", nil)
	switch {
	case n > 0:
		f.privileged = "file capabilities"
	case err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EOPNOTSUPP):
		return nil, err
	case st.Mode&unix.S_ISUID != 0:
		f.privileged = "set-uid"
	case st.Mode&unix.S_ISGID != 0:
		f.privileged = "set-gid"
	}
	in, err := unix.Open(self, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return f, unix.Close(in)
}

// sameRoot reports whether a process has this process's root directory.
func sameRoot(pid int) bool {
	var ours, its unix.Stat_t
	mnt := "/proc/" + strconv.Itoa(pid) + "/ns/mnt"
	same := func(a, b string) bool {
		return unix.Stat(a, &ours) == nil && unix.Stat(b, &its) == nil && ours.Dev == its.Dev &&
			ours.Ino == its.Ino
	}
	return same("/proc/self/ns/mnt", mnt) &&
		same("/proc/self/root/.", "/proc/"+strconv.Itoa(pid)+"/root/.")
}
