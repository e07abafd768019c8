//go:build !linux

package kernel

import "errors"

// OpenCgroup is only supported on Linux.
func OpenCgroup(string) (fd int, closeFD func(), err error) {
	return -1, nil, errors.ErrUnsupported
}

// OpenThread is only supported on Linux.
func OpenThread(int) (fd int, closeFD func(), err error) { return -1, nil, errors.ErrUnsupported }

// NoEntry reports whether a lookup failed because there is no such entry.
func NoEntry(error) bool { return false }

// CgroupPath is only supported on Linux.
func CgroupPath(uint64) (string, error) { return "", errors.ErrUnsupported }

// CgroupID is only supported on Linux.
func CgroupID(string) (uint64, error) { return 0, errors.ErrUnsupported }
