//go:build !linux

package deploy

import "errors"

// lockDir fails: deployments exist on Linux only.
func lockDir(string) (unlock func(), err error) { return nil, errors.ErrUnsupported }
