//go:build !unix

package symbol

import "io/fs"

func defaultMaxFiles() int { return 1024 }

func ownFile(fs.FileInfo) bool { return true }
