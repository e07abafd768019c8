// Package meter tells tests with bounds what code takes, and how it was built.
package meter

import (
	"runtime"
	"runtime/debug"
	"slices"
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

// Raced reports whether this program was built with -race, which takes several
// times the memory.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
