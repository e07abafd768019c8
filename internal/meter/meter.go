// Package meter measures the memory and CPU time of code, for tests with bounds, and reports
// whether a test was built with -race.
package meter

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// Allocated returns the number of bytes that this process allocates while f runs: f's own, if
// no other code runs.
func Allocated(f func()) uint64 {
	bytes, _, _ := measure(f)
	return bytes
}

// Spent returns the bytes that this process allocates while f runs, and the CPU time it uses,
// which does not depend on the machine's load. cpu is 0 on systems other than Unix.
func Spent(f func()) (bytes uint64, cpu time.Duration) {
	bytes, _, cpu = measure(f)
	return bytes, cpu
}

// measure returns the bytes and the number of allocations while f runs, and its CPU time.
func measure(f func()) (bytes, mallocs uint64, cpu time.Duration) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := used()
	f()
	cpu = used() - begin
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs, cpu
}

// Hang is the CPU time after which Bounded takes code to hang. It is no measure of speed: the
// slowest of the tests' files takes a hundredth of it. Benchmarks show times.
const Hang = 30 * time.Second

// Bounded calls f, which reads a possibly malicious file of size bytes. It fails the test if f
// allocates more than 64 MiB plus size, or more often than a million times plus once for each
// 16 bytes of size, or hangs. It does not check with -race. It returns the results of Spent.
func Bounded(t testing.TB, size int, f func()) (bytes uint64, cpu time.Duration) {
	t.Helper()
	bytes, mallocs, cpu := measure(f)
	if Raced() {
		return bytes, cpu
	}
	if most := uint64(64<<20 + size); bytes > most {
		t.Errorf("a file of %d bytes took %d of memory, want at most %d", size, bytes, most)
	}
	if most := uint64(1<<20 + size/16); mallocs > most {
		t.Errorf("a file of %d bytes took %d allocations, want at most %d", size, mallocs, most)
	}
	if cpu > Hang {
		t.Errorf("a file of %d bytes took %v of a CPU", size, cpu)
	}
	return bytes, cpu
}

// Raced reports whether this program was built with -race, which takes several times as much
// memory.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
