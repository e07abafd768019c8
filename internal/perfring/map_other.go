//go:build !linux

package perfring

import "errors"

// Map needs Linux.
func Map(fd, pages int) (*Ring, error) { return nil, errors.ErrUnsupported }

// Unmap does nothing.
func (r *Ring) Unmap() error { return nil }
