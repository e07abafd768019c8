package kernel

import "golang.org/x/sys/unix"

// Monotonic returns CLOCK_MONOTONIC in nanoseconds, the clock of BPF programs and of event
// timestamps. Package time does not export its own monotonic clock.
func Monotonic() uint64 { return uint64(clock(unix.CLOCK_MONOTONIC)) }

// Boottime returns CLOCK_BOOTTIME, in nanoseconds.
func Boottime() uint64 { return uint64(clock(unix.CLOCK_BOOTTIME)) }

// TAIOffset returns CLOCK_TAI minus CLOCK_MONOTONIC, in nanoseconds. It reads CLOCK_TAI
// between two readings of CLOCK_MONOTONIC, a few times, and uses the closest readings.
func TAIOffset() int64 {
	best, offset := int64(-1), int64(0)
	for range 5 {
		before := clock(unix.CLOCK_MONOTONIC)
		tai := clock(unix.CLOCK_TAI)
		after := clock(unix.CLOCK_MONOTONIC)
		if d := after - before; best < 0 || d < best {
			best, offset = d, tai-(before+d/2)
		}
	}
	return offset
}

// clock reads a clock, in nanoseconds. It returns 0 if the clock does not exist.
func clock(id int32) int64 {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
