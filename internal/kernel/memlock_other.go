//go:build !linux

package kernel

// RaiseMemlock does nothing where there is no BPF.
func RaiseMemlock() error { return nil }
