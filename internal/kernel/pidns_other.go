//go:build !linux

package kernel

// OwnPIDNamespace is only supported on Linux.
func OwnPIDNamespace() *PIDNamespace { return nil }

// PIDNamespaceID is only supported on Linux.
func PIDNamespaceID() (dev, ino uint64) { return 0, 0 }
