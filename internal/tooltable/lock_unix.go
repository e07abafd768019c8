//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// lock waits for the lock of a file, as flock(1) does, and returns how it is given
// back; "" is no lock.
func lock(file string) (unlock func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return f.Close, nil
}
