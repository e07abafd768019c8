//go:build !linux

package feature

import (
	"errors"
	"runtime"
)

func test(f Feature) error {
	return &UnsupportedError{Feature: f.String(), Hint: "this is " + runtime.GOOS + ", not Linux"}
}

// Release returns "" on systems other than Linux.
func Release() string { return "" }

// KernelConfig is only supported on Linux.
func KernelConfig(string) (string, error) { return "", errors.ErrUnsupported }

// HasCap returns false on systems other than Linux.
func HasCap(Cap) bool { return false }

// Lockdown returns "" on systems other than Linux.
func Lockdown() string { return "" }

// Refused returns err on systems other than Linux.
func Refused(err error) error { return err }
