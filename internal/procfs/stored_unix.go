//go:build unix

package procfs

import (
	"os"
	"syscall"
)

// Stored returns how many bytes of storage a file occupies, at most its size: less if it has
// holes. It returns its size if the file system does not report its storage.
func Stored(st os.FileInfo) int64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Blocks > 0 { // of 512 bytes: stat(2)
		return min(int64(s.Blocks)*512, st.Size())
	}
	return st.Size()
}
