//go:build unix

package meter

import (
	"time"

	"golang.org/x/sys/unix"
)

// used returns this process's CPU time.
func used() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
