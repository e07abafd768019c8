// Package life is the form in which programs of scripts keep which process an address is of, and when it
// ran the program that has it: output.Process, which fits into 8 bytes of a map's key.
package life

// The parts of the 64 bits.
const (
	// Stranger is set if the number is that in the initial pid namespace. Numbers are below it:
	// PID_MAX_LIMIT, linux/threads.h.
	Stranger = 1 << 22
	// Above TimeShift is the time of CLOCK_MONOTONIC in units of 1<<Unit nanoseconds, which repeats after
	// 26 days. 0 is none.
	TimeShift = 23
	Unit      = 10
)
