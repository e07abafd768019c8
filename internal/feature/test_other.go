//go:build !linux

package feature

import (
	"errors"
	"runtime"
)

func test(f Feature) error {
	return &UnsupportedError{Feature: f.String(), Hint: "this is " + runtime.GOOS + ", not Linux"}
}

// Release is empty: this is not Linux.
func Release() string { return "" }

// KernelConfig fails: this is not Linux.
func KernelConfig(string) (string, error) { return "", errors.ErrUnsupported }

// HasCap is false: this is not Linux.
func HasCap(Cap) bool { return false }

// Lockdown is empty: this is not Linux.
func Lockdown() string { return "" }

// Refused is err: this is not Linux.
func Refused(err error) error { return err }
