//go:build unix

package elffile

import (
	"os"
	"syscall"
)

// mapFile maps size bytes of f for reading. The mapping outlives the descriptor.
func mapFile(f *os.File, size int64) ([]byte, error) {
	if size <= 0 || int64(int(size)) != size {
		return nil, syscall.EINVAL
	}
	return syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_PRIVATE)
}

func unmap(b []byte) error { return syscall.Munmap(b) }
