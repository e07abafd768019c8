//go:build unix

package elffile

import (
	"os"
	"syscall"

	"github.com/borescope/borescope/internal/procfs"
)

// mapFile maps a file for reading. The mapping outlives the descriptor. It does not
// map files of remote file systems: the whole program would wait for a page that comes late.
func mapFile(f *os.File, st os.FileInfo) ([]byte, error) {
	size := st.Size()
	if size <= 0 || int64(int(size)) != size {
		return nil, syscall.EINVAL
	}
	if procfs.IsRemote(f, st) {
		return nil, syscall.EREMOTE
	}
	return syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_PRIVATE)
}

func unmap(b []byte) error { return syscall.Munmap(b) }
