//go:build !unix

package procfs

import "io/fs"

// Owner returns Anybody: the user that a file belongs to is unknown.
func Owner(fs.FileInfo) User { return Anybody }
