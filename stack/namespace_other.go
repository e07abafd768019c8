//go:build !linux

package stack

import "errors"

// namespaceID names a namespace; the zero value is none.
type namespaceID struct{ dev, inode uint64 }

func pidNamespace(int) (namespaceID, error) { return namespaceID{}, errors.ErrUnsupported }
