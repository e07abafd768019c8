//go:build !unix

package symbol

import (
	"io/fs"

	"github.com/borescope/borescope/internal/procfs"
)

func defaultMaxFiles() int { return 1024 }

func ownFile(fs.FileInfo) bool { return true }

// owner returns anybody: the user that a file belongs to is unknown.
func owner(fs.FileInfo) procfs.User { return anybody }
