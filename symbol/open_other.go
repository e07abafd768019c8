//go:build !unix

package symbol

import "io/fs"

const openFlags = 0

func defaultMaxFiles() int { return 1024 }

func ownFile(fs.FileInfo) bool { return true }
