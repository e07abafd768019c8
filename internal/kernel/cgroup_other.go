//go:build !linux

package kernel

import "errors"

// OpenCgroup needs Linux.
func OpenCgroup(string) (fd int, closeFD func(), err error) {
	return -1, nil, errors.ErrUnsupported
}

// OpenThread needs Linux.
func OpenThread(int) (fd int, closeFD func(), err error) { return -1, nil, errors.ErrUnsupported }

// NoEntry says whether a look-up failed because there is no such entry.
func NoEntry(error) bool { return false }

// CgroupPath needs Linux.
func CgroupPath(uint64) (string, error) { return "", errors.ErrUnsupported }

// CgroupID needs Linux.
func CgroupID(string) (uint64, error) { return 0, errors.ErrUnsupported }
