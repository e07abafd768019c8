// Package meter tells tests with bounds what code takes, and how it was built.
package meter

import (
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// Allocated returns how many bytes this process allocates while f runs: f's own,
// if nothing else runs.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Spent returns how many bytes this process allocates while f runs, and how much
// processor time it takes, which other load of the machine does not make more: 0 where
// the system is no Unix.
func Spent(f func()) (bytes uint64, cpu time.Duration) {
	before := used()
	bytes = Allocated(f)
	return bytes, used() - before
}

// Raced reports whether this program was built with -race, which takes several
// times the memory.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
