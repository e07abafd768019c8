//go:build !linux

package probe

import "runtime"

type fileID struct{ device, inode uint64 }

func idOfFile(e *Env, name string) (fileID, error) {
	return fileID{}, &UnsupportedError{Feature: "inode of " + name, Hint: "this is " + runtime.GOOS}
}
