//go:build unix && !linux

package procfs

import "syscall"

// nonblock keeps a FIFO from waiting for its writer.
const nonblock = syscall.O_NONBLOCK
