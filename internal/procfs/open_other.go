//go:build !linux

package procfs

import (
	"os"

	"github.com/borescope/borescope/internal/feature"
)

func unsupported(what string) error {
	return &feature.UnsupportedError{Feature: what, Hint: "processes can be inspected on Linux only"}
}

// OpenInRoot is for Linux.
func OpenInRoot(int, string) (*os.File, error) {
	return nil, unsupported("opening a process's file")
}

// OpenMapping is for Linux.
func OpenMapping(int, *Mapping) (*os.File, error) {
	return nil, unsupported("opening a mapped file")
}

// FileID is for Linux.
func FileID(*os.File) (dev, inode uint64, err error) {
	return 0, 0, unsupported("identifying a file")
}

// ReadMemory is for Linux.
func ReadMemory(int, []byte, uint64) error {
	return unsupported("reading a process's memory")
}
