//go:build !unix || solaris || aix

package kernel

import "errors"

// lock fails: without apt there is nothing to download either.
func lock(string) (func(), error) { return nil, errors.ErrUnsupported }
