//go:build !linux

package perfevent

import "errors"

// Open is only supported on Linux.
func (ev *Event) Open() (int, error) { return -1, errors.ErrUnsupported }
