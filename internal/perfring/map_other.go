//go:build !linux

package perfring

import "errors"

// Map is only supported on Linux.
func Map(fd, pages int) (*Ring, error) { return nil, errors.ErrUnsupported }

// Unmap does nothing.
func (r *Ring) Unmap() error { return nil }
