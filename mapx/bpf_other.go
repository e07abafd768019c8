//go:build !linux

package mapx

import (
	"errors"
	"runtime"
	"unsafe"
)

// supported is nil where live maps can be read.
func supported(feature string) error {
	return &UnsupportedError{
		Feature: feature,
		Hint:    "live BPF maps are Linux's; on " + runtime.GOOS + " open a recording",
	}
}

func bpf(int, unsafe.Pointer, uintptr) error { return errors.ErrUnsupported }
