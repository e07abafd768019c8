//go:build unix

package elffile

import (
	"os"
	"syscall"
)

// storage is how many bytes of storage a file takes up, its size where the file
// system does not say.
func storage(st os.FileInfo) int64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Blocks > 0 { // of 512 bytes: stat(2)
		return min(int64(s.Blocks)*512, st.Size())
	}
	return st.Size()
}
