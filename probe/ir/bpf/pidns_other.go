//go:build !linux

package bpf

// pidNamespace is for Linux.
func pidNamespace() (dev, ino uint64) { return 0, 0 }
