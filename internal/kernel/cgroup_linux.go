package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// fileIDKernfs is FILEID_KERNFS (include/linux/exportfs.h), the type of handles that contain a
// node's 64-bit id. For a cgroup, that is the cgroup's id (kernfs_fh_to_dentry,
// fs/kernfs/mount.c).
const fileIDKernfs = 0xfe

// CgroupPath returns the path of a cgroup2 directory below its hierarchy's mount. id is the id
// that bpf_get_current_cgroup_id returns. It needs CAP_DAC_READ_SEARCH. The error matches
// fs.ErrNotExist if the cgroup does not exist (any more).
func CgroupPath(id uint64) (string, error) {
	mount, err := cgroup2Mount()
	if err != nil {
		return "", err
	}
	dir, err := unix.Open(mount, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", mount, err)
	}
	defer unix.Close(dir)
	handle := unix.NewFileHandle(fileIDKernfs, binary.NativeEndian.AppendUint64(nil, id))
	fd, err := unix.OpenByHandleAt(dir, handle, unix.O_RDONLY|unix.O_CLOEXEC)
	if errors.Is(err, unix.ESTALE) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return "", fmt.Errorf("cgroup %d: %w", id, err)
	}
	defer unix.Close(fd)
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "", fmt.Errorf("cgroup %d: %w", id, err)
	}
	if path = strings.TrimPrefix(path, mount); path == "" {
		path = "/"
	}
	return path, nil
}

// CgroupID is the inverse of CgroupPath. The path may also be one in the file system, below
// the mount.
func CgroupID(path string) (uint64, error) {
	mount, err := cgroup2Mount()
	if err != nil {
		return 0, err
	}
	if !strings.HasPrefix(path+"/", mount+"/") {
		path = mount + "/" + strings.TrimPrefix(path, "/")
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("cgroup %s: %w", path, err)
	}
	return st.Ino, nil // the id on 64-bit machines
}

// cgroup2Mount returns the directory where the cgroup2 hierarchy is mounted.
func cgroup2Mount() (string, error) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("no cgroup2 is mounted: %w", errors.ErrUnsupported)
}

// OpenCgroup opens a cgroup's directory, by its path as in CgroupID. It returns the descriptor
// and a function that closes it.
func OpenCgroup(path string) (fd int, closeFD func(), err error) {
	mount, err := cgroup2Mount()
	if err != nil {
		return -1, nil, err
	}
	if !strings.HasPrefix(path+"/", mount+"/") {
		path = mount + "/" + strings.TrimPrefix(path, "/")
	}
	fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("cgroup %s: %w", path, err)
	}
	return fd, func() { unix.Close(fd) }, nil
}

// OpenThread opens a pidfd of a thread, and returns a function that closes it. For a thread
// that is not its process's leader it needs PIDFD_THREAD (Linux 6.9).
func OpenThread(tid int) (fd int, closeFD func(), err error) {
	const pidfdThread = unix.O_EXCL // include/uapi/linux/pidfd.h
	fd, err = unix.PidfdOpen(tid, 0)
	if err != nil {
		fd, err = unix.PidfdOpen(tid, pidfdThread)
	}
	if err != nil {
		return -1, nil, err
	}
	return fd, func() { unix.Close(fd) }, nil
}

// NoEntry reports whether a lookup failed because there is no such entry.
func NoEntry(err error) bool { return errors.Is(err, ebpf.ErrKeyNotExist) }
