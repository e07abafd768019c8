//go:build !linux

package kernel

import (
	"errors"
	"unsafe"
)

func mapCall(MapCommand, unsafe.Pointer, uintptr) error { return errors.ErrUnsupported }
