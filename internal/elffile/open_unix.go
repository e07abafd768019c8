//go:build unix

package elffile

import (
	"os"
	"syscall"
)

// openRegular opens path without waiting for the writer of a FIFO.
func openRegular(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
}
