//go:build !linux

package procfs

import "io/fs"

// Changed is only supported on Linux.
func Changed(fs.File) (at int64, ok bool) { return 0, false }

// MappedChanged is only supported on Linux.
func MappedChanged(int, *Mapping) (at int64, ok bool) { return 0, false }
