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

// isCgroup2 reports whether version 2 is mounted there.
func isCgroup2(dir string) bool {
	const magic = 0x63677270 // CGROUP2_SUPER_MAGIC
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && st.Type == magic
}

// pathByHandle returns a group's path below the mount, by its id.
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
	// The path of the mount may contain links.
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
