//go:build !unix

package procfs

import "os"

// Stored returns how many bytes of storage a file occupies: here its size.
func Stored(st os.FileInfo) int64 { return st.Size() }
