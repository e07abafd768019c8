//go:build !linux

package elffile

// Release does nothing on this system.
func (f *File) Release([]byte) {}

// ReleaseAll is Release for the whole file.
func (f *File) ReleaseAll() {}
