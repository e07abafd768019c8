// Package stacktest contains the processes and data that tests of stack and of the packages
// below it walk.
package stacktest

import "io/fs"

// EmptyFS has no files.
type EmptyFS struct{}

// Open returns fs.ErrNotExist.
func (EmptyFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
