//go:build !unix

package elffile

import (
	"errors"
	"os"
)

// mapFile is not supported: files are read section by section.
func mapFile(*os.File, os.FileInfo) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return nil }
