//go:build !linux

package kernel

import "errors"

// OnEachCPU is for Linux.
func OnEachCPU(int, func(int)) error { return errors.ErrUnsupported }

// Synchronize is for Linux.
func Synchronize() {}
