package probe

import (
	"fmt"
	"io/fs"
)

// notFoundError says in its own words that something does not exist, and
// matches fs.ErrNotExist without repeating that.
type notFoundError struct{ msg string }

func (e *notFoundError) Error() string { return e.msg }

func (e *notFoundError) Unwrap() error { return fs.ErrNotExist }

func notFound(format string, args ...any) error {
	return &notFoundError{fmt.Sprintf(format, args...)}
}
