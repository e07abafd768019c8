package kernel

import "golang.org/x/sys/unix"

// Monotonic is CLOCK_MONOTONIC in nanoseconds, as programs read it and as events are
// stamped. Package time keeps its own monotonic clock to itself.
func Monotonic() uint64 { return uint64(clock(unix.CLOCK_MONOTONIC)) }

// TAIOffset is how far CLOCK_TAI is ahead of CLOCK_MONOTONIC: read between two
// readings of the other, and as close to them as a few attempts come.
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

// clock reads a clock, in nanoseconds; 0 where there is none of that number.
func clock(id int32) int64 {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
