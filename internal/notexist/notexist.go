// Package notexist provides errors that match fs.ErrNotExist without its text, "file does not
// exist", which is wrong for a symbol, a tracepoint or a map.
package notexist

import (
	"fmt"
	"io/fs"
)

// Error is an error that matches fs.ErrNotExist. Its value is the text.
type Error string

func (e Error) Error() string { return string(e) }

// Unwrap returns fs.ErrNotExist.
func (e Error) Unwrap() error { return fs.ErrNotExist }

// Errorf formats an Error. It does not support %w: an error argument becomes part of the text.
func Errorf(format string, args ...any) error { return Error(fmt.Sprintf(format, args...)) }
