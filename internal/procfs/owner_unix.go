//go:build unix

package procfs

import (
	"io/fs"
	"syscall"
)

// Owner returns the user that a file belongs to, Anybody if the system does not report it.
func Owner(st fs.FileInfo) User {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return User{UID: int(sys.Uid), GID: int(sys.Gid)}
	}
	return Anybody
}
