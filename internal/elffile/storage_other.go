//go:build !unix

package elffile

import "os"

// storage is how many bytes of storage a file takes up: its size, as far as known.
func storage(st os.FileInfo) int64 { return st.Size() }
