package probe

import (
	"io/fs"
	"syscall"

	"github.com/borescope/borescope/internal/feature"
)

// idOfFile is what tells a file, or a namespace, from others.
type fileID struct{ device, inode uint64 }

// idOfFile reads a file's device, as the kernel itself numbers it, and inode.
func idOfFile(e *Env, name string) (fileID, error) {
	st, err := fs.Stat(e.Root(), name)
	if err != nil {
		return fileID{}, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, &feature.UnsupportedError{Feature: "inode of " + name, Hint: "a recorded file system has none"}
	}
	// new_encode_dev, include/linux/kdev_t.h: the minor number is split.
	dev := uint64(sys.Dev)
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	return fileID{major<<20 | minor, sys.Ino}, nil
}
