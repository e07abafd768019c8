//go:build !linux

package tooltest

// ReadDisk works only on Linux. It panics.
func ReadDisk(int) { panic("no disk to read") }
