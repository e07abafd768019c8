//go:build !unix || solaris || aix

package kernel

import "errors"

// Lock is not supported: without apt there is nothing to download.
func Lock(string) (func(), error) { return nil, errors.ErrUnsupported }
