//go:build !unix

package main

import "errors"

// lock is for systems with flock(2).
func lock(file string) (unlock func() error, err error) {
	if file != "" {
		return nil, errors.ErrUnsupported
	}
	return func() error { return nil }, nil
}
