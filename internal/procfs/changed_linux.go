package procfs

import (
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Changed returns when an open file was last changed, contents or attributes (st_ctim), in
// nanoseconds since 1970. Programs cannot set that time. ok is false if it is not known. It asks
// no file system.
func Changed(f fs.File) (at int64, ok bool) {
	fd, ok := descriptor(f)
	if !ok {
		return 0, false
	}
	return changed(fd, "")
}

// MappedChanged is Changed for the file behind a mapping, which it does not open. It needs
// CAP_CHECKPOINT_RESTORE (Linux 5.9) or CAP_SYS_ADMIN.
func MappedChanged(pid int, m *Mapping) (at int64, ok bool) {
	return changed(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End))
}

func changed(fd int, path string) (int64, bool) {
	var st unix.Statx_t
	err := unix.Statx(fd, path, unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_CTIME, &st)
	if err != nil || st.Mask&unix.STATX_CTIME == 0 {
		return 0, false
	}
	return st.Ctime.Sec*1e9 + int64(st.Ctime.Nsec), true
}
