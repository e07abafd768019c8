// Package notexist says that something does not exist in the words of whoever
// looked for it: errors that match fs.ErrNotExist without its text, "file does
// not exist", which is wrong of a symbol, a tracepoint or a map.
package notexist

import (
	"fmt"
	"io/fs"
)

// Error is such an error: its text.
type Error string

func (e Error) Error() string { return string(e) }

// Unwrap returns fs.ErrNotExist.
func (e Error) Unwrap() error { return fs.ErrNotExist }

// Errorf formats an Error. It knows no %w: whatever is wrapped goes into the text.
func Errorf(format string, args ...any) error { return Error(fmt.Sprintf(format, args...)) }
