//go:build !linux

package container

import (
	"errors"
	"io/fs"
)

func inode(fs.FileInfo) (uint64, bool) { return 0, false }

func isCgroup2(string) bool { return false }

func pathByHandle(string, uint64) (string, error) { return "", errors.ErrUnsupported }
