//go:build unix

package symbol

import (
	"io/fs"
	"os"
	"syscall"
)

// defaultMaxFiles leaves most of the files that the process may open to the program that uses
// this package.
func defaultMaxFiles() int {
	const most, part = 1024, 4
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur >= part*most {
		return most
	}
	return max(int(l.Cur)/part, 16)
}

// ownFile reports whether a file belongs to this user or to root, and no other user may
// write to it.
func ownFile(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && (sys.Uid == 0 || int(sys.Uid) == os.Geteuid()) && st.Mode().Perm()&0o022 == 0
}
