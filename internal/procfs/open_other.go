//go:build !linux

package procfs

import (
	"io/fs"
	"os"

	"github.com/borescope/borescope/internal/feature"
)

func unsupported(what string) error {
	return &feature.UnsupportedError{Feature: what, Hint: "processes can be inspected on Linux only"}
}

// Open opens a regular file for reading, without waiting if it is another type of file. The
// caller closes it.
func Open(path string) (*os.File, error) { return open(path, false, false) }

// OpenServed is Open.
func OpenServed(path string) (*os.File, error) { return Open(path) }

func open(path string, dir, _ bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() && !(dir && st.IsDir()) {
		err = &os.PathError{Op: "open", Path: path, Err: &NotRegularError{st.Mode()}}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// OpenInRoot is only supported on Linux.
func OpenInRoot(int, string, bool) (fs.File, error) {
	return nil, unsupported("opening a process's file")
}

// OpenMapping is only supported on Linux.
func OpenMapping(int, *Mapping, bool) (fs.File, error) {
	return nil, unsupported("opening a mapped file")
}

// FileID is only supported on Linux.
func FileID(fs.File) (dev, inode uint64, err error) {
	return 0, 0, unsupported("identifying a file")
}

// ReadMemory is only supported on Linux.
func ReadMemory(int, []byte, uint64) error {
	return unsupported("reading a process's memory")
}

// Receive calls read, and each with what it sends.
func Receive[T any](_ int, read func(send func(T) bool), each func(T)) error {
	read(func(v T) bool { each(v); return true })
	return nil
}

// OpenMapped is only supported on Linux.
func OpenMapped(int, *Mapping, bool) (fs.File, error) {
	return nil, unsupported("opening a mapped file")
}

// OpenFor opens a regular file: other users' rights are only known on Linux.
func OpenFor(_ User, _ int, name string) (fs.File, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// OpenOwn is only supported on Linux.
func OpenOwn(User, int, string) (fs.File, error) {
	return nil, unsupported("opening a process's file")
}

// CheckServed returns nil: what serves a file is only known on Linux.
func CheckServed(int, int) error { return nil }

// HasOwnRoot returns false: the roots of processes are only known on Linux.
func HasOwnRoot(int) bool { return false }

// IsRemote returns false: what serves a file is only known on Linux.
func IsRemote(*os.File, fs.FileInfo) bool { return false }

// CheckAttachable returns nil: nothing is attached to files on other systems.
func CheckAttachable(int, int) error { return nil }

// IsMapped returns false: mappings are only known on Linux.
func IsMapped(fs.File, int, *Mapping) bool { return false }
