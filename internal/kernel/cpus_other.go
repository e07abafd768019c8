//go:build !linux

package kernel

import "errors"

func onEachCPU(int, func(int)) error { return errors.ErrUnsupported }

func synchronize() {}

func mapShared(int, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return nil }
