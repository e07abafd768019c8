// Package meter tells tests with bounds what code takes, and how it was built.
package meter

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
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

// Bounded has f read a file of size bytes that anybody may have written, and fails the
// test if that takes more than 64 MiB above the file or a second of a CPU, which is not
// looked at with -race, and of a guest's emulated CPU. It returns what Spent does.
func Bounded(t testing.TB, size int, f func()) (bytes uint64, cpu time.Duration) {
	t.Helper()
	bytes, cpu = Spent(f)
	if most := uint64(64<<20 + size); bytes > most && !Raced() {
		t.Errorf("a file of %d bytes took %d of memory, want at most %d", size, bytes, most)
	}
	if cpu > time.Second && !Raced() && !testenv.InGuest() {
		t.Errorf("a file of %d bytes took %v of a CPU, want at most a second", size, cpu)
	}
	return bytes, cpu
}

// Raced reports whether this program was built with -race, which takes several
// times the memory.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
