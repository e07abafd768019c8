//go:build !linux

package probe

import (
	"runtime"

	"github.com/borescope/borescope/internal/feature"
)

type fileID struct{ device, inode uint64 }

func idOfFile(e *Env, name string) (fileID, error) {
	return fileID{}, &feature.UnsupportedError{Feature: "inode of " + name, Hint: "this is " + runtime.GOOS}
}
