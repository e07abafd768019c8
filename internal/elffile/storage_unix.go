//go:build unix

package elffile

import (
	"os"
	"syscall"
)

// storage returns how many bytes of storage a file occupies, its size if the file system does
// not report that.
func storage(st os.FileInfo) int64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Blocks > 0 { // of 512 bytes: stat(2)
		return min(int64(s.Blocks)*512, st.Size())
	}
	return st.Size()
}
