//go:build !unix

package elffile

import "os"

// storage returns how many bytes of storage a file occupies; on this system, its size.
func storage(st os.FileInfo) int64 { return st.Size() }
