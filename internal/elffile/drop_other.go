//go:build !linux

package elffile

// Release does nothing on this system.
func (f *File) Release([]byte) {}

// ReleaseAll does nothing on this system.
func (f *File) ReleaseAll() {}
