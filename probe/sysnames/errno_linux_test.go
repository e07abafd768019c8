package sysnames

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func errnoName(n int) string { return unix.ErrnoName(syscall.Errno(n)) }
