//go:build !linux

package procfs

import "errors"

// NamespaceID names a namespace; the zero value is none.
type NamespaceID struct{ Dev, Inode uint64 }

func PidNamespace(int) (NamespaceID, error) { return NamespaceID{}, errors.ErrUnsupported }
