//go:build unix

package meter

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns how much processor time this process takes while f runs, which other
// load of the machine does not make more.
func CPU(f func()) time.Duration {
	before := used()
	f()
	return used() - before
}

func used() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
