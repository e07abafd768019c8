//go:build !linux

package userfile

import "os"

// Identify knows no files: probes are put into those of Linux only.
func Identify(*os.File) (FileID, error) { return FileID{}, nil }
