//go:build !linux

package action

import "errors"

// CgroupPath needs Linux.
func CgroupPath(uint64) (string, error) { return "", errors.ErrUnsupported }

// CgroupID needs Linux.
func CgroupID(string) (uint64, error) { return 0, errors.ErrUnsupported }
