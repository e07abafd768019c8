//go:build unix && !linux

package procfs

import "syscall"

// nonblock prevents that opening a FIFO waits for its writer.
const nonblock = syscall.O_NONBLOCK
