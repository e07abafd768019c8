//go:build !linux

package procfs

import "errors"

// NamespaceID identifies a namespace. The zero value is none.
type NamespaceID struct{ Dev, Inode uint64 }

// PidNamespace is only supported on Linux.
func PidNamespace(int) (NamespaceID, error) { return NamespaceID{}, errors.ErrUnsupported }
