//go:build !linux

package tracefs

import (
	"errors"
	"os"
)

func detached() (*os.File, error) { return nil, errors.ErrUnsupported }
