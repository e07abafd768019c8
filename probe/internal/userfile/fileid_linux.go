package userfile

import (
	"os"
	"syscall"
)

// Identify returns the identity of an open file, without its build-id.
func Identify(f *os.File) (FileID, error) {
	st, err := f.Stat()
	if err != nil {
		return FileID{}, err
	}
	s := st.Sys().(*syscall.Stat_t)
	return FileID{Device: uint64(s.Dev), Inode: s.Ino, Changed: s.Ctim.Nano()}, nil
}
