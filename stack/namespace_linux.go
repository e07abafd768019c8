package stack

import (
	"os"
	"strconv"
	"syscall"
)

// namespaceID names a namespace; the zero value is none.
type namespaceID struct{ dev, inode uint64 }

// pidNamespace finds the pid namespace that a process lives in.
func pidNamespace(pid int) (namespaceID, error) {
	info, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/ns/pid")
	if err != nil {
		return namespaceID{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return namespaceID{}, os.ErrInvalid
	}
	return namespaceID{st.Dev, st.Ino}, nil
}
