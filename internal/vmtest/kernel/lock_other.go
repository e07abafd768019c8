//go:build !unix || solaris || aix

package kernel

import "errors"

// Lock fails: without apt there is nothing to download either.
func Lock(string) (func(), error) { return nil, errors.ErrUnsupported }
