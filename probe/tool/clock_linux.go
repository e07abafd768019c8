package tool

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonicZero is the moment at which CLOCK_MONOTONIC was 0.
func monotonicZero() time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(ts.Nano())).Round(0)
}
