package procfs

import (
	"os"
	"strconv"
	"syscall"
)

// NamespaceID identifies a namespace. The zero value is none.
type NamespaceID struct{ Dev, Inode uint64 }

// PidNamespace returns the pid namespace of a process.
func PidNamespace(pid int) (NamespaceID, error) {
	info, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/ns/pid")
	if err != nil {
		return NamespaceID{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return NamespaceID{}, os.ErrInvalid
	}
	return NamespaceID{st.Dev, st.Ino}, nil
}
