//go:build !unix

package symbol

import "io/fs"

func defaultMaxFiles() int { return 1024 }

func ownFile(fs.FileInfo) bool { return true }

// owner is the user that a file belongs to: not known.
func owner(fs.FileInfo) int { return -1 }
