package kernel

import "time"

// MonotonicZero returns the time at which CLOCK_MONOTONIC was 0, by this machine's clock.
func MonotonicZero() time.Time {
	return time.Now().Add(-time.Duration(Monotonic())).Round(0)
}
