// Package meter measures the memory and CPU time of code, for tests with bounds, and reports
// whether a test was built with -race.
package meter

import (
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// Allocated returns the number of bytes that this process allocates while f runs: f's own, if
// no other code runs.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Spent returns the bytes that this process allocates while f runs, and the CPU time it uses,
// which does not depend on the machine's load. cpu is 0 on systems other than Unix.
func Spent(f func()) (bytes uint64, cpu time.Duration) {
	before := used()
	bytes = Allocated(f)
	return bytes, used() - before
}

// Bounded calls f, which reads a possibly malicious file of size bytes. It fails the test if f
// allocates more than 64 MiB plus size, or takes more than a second of CPU time on a machine
// as fast as Second's. It does not check with -race, nor the time in a guest, because its CPU
// is emulated. It returns the results of Spent.
func Bounded(t testing.TB, size int, f func()) (bytes uint64, cpu time.Duration) {
	t.Helper()
	bytes, cpu = Spent(f)
	if most := uint64(64<<20 + size); bytes > most && !Raced() {
		t.Errorf("a file of %d bytes took %d of memory, want at most %d", size, bytes, most)
	}
	if cpu <= time.Second || Raced() || testenv.InGuest() {
		return bytes, cpu
	}
	if most := Second(); cpu > most {
		t.Errorf("a file of %d bytes took %v of a CPU, want at most %v", size, cpu, most)
	}
	return bytes, cpu
}

// Second returns the CPU time that this machine, under its present load, takes for the work of
// one second on the machine that the bounds of the tests are for; at least a second. It
// measures a map, allocations and a sort.
func Second() time.Duration {
	const rounds, reference = 16, 66 * time.Millisecond
	_, cpu := Spent(func() {
		for range rounds {
			work()
		}
	})
	return max(time.Second, time.Second*cpu/reference)
}

// work is the work that Second measures.
func work() {
	x, m := uint64(1), map[uint64][]byte{}
	for range 1 << 14 {
		x = x*6364136223846793005 + 1442695040888963407
		m[x>>32] = make([]byte, 64)
	}
	slices.Sort(slices.Collect(maps.Keys(m)))
}

// Raced reports whether this program was built with -race, which takes several times as much
// memory.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
