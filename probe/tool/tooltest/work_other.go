//go:build !linux

package tooltest

// ReadDisk is there on Linux only.
func ReadDisk(int) { panic("no disk to read") }
