package cgroups

import (
	"io/fs"
	"syscall"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/env"
)

// ID identifies a file or a namespace.
type ID struct{ Device, Inode uint64 }

// IDOf returns a file's inode and its device number in the kernel's own encoding.
func IDOf(e *env.Env, name string) (ID, error) {
	st, err := fs.Stat(e.Root(), name)
	if err != nil {
		return ID{}, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return ID{}, &feature.UnsupportedError{
			Feature: "inode of " + name,
			Hint:    "a recorded file system has none",
		}
	}
	// new_encode_dev, include/linux/kdev_t.h: the minor number is split.
	dev := uint64(sys.Dev)
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	return ID{major<<20 | minor, sys.Ino}, nil
}
