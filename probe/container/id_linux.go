package container

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/borescope/borescope/internal/kernel"
)

func inode(info fs.FileInfo) (uint64, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Ino, true
}

// isCgroup2 tells the mount of version 2 from version 1's and from none.
func isCgroup2(dir string) bool {
	const magic = 0x63677270 // CGROUP2_SUPER_MAGIC
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && st.Type == magic
}

// pathByHandle opens a group by its id, and says where it is below the mount.
func pathByHandle(mount string, id uint64) (string, error) {
	dir, err := os.Open(mount)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	f, err := kernel.OpenKernfs(int(dir.Fd()), id)
	if err != nil {
		return "", err
	}
	defer f.Close()
	// The mount may have been named by way of links.
	top, err := nameOf(dir)
	if err != nil {
		return "", err
	}
	p, err := nameOf(f)
	if err != nil {
		return "", err
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(p, top), "/"), nil
}

func nameOf(f *os.File) (string, error) {
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}
