//go:build !linux

package deploy

import "errors"

// lockDir is for Linux.
func lockDir(string) (unlock func(), err error) { return nil, errors.ErrUnsupported }
