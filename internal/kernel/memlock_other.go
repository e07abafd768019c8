//go:build !linux

package kernel

// RaiseMemlock does nothing on systems without BPF.
func RaiseMemlock() error { return nil }
