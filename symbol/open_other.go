//go:build !unix

package symbol

import "io/fs"

func defaultMaxFiles() int { return 1024 }

func ownFile(fs.FileInfo) bool { return true }

// owner returns -1: the user that a file belongs to is unknown.
func owner(fs.FileInfo) procfs.User { return nobody }
