package spin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// Quiet locks the test to a thread without the Go runtime's preemption signals, whose handlers
// would count as user instructions. In a guest it also takes the other CPUs offline: QEMU's
// -icount derives its counters from one clock for all CPUs.
func Quiet(t *testing.T) {
	t.Helper()
	if testenv.InGuest() {
		others, err := filepath.Glob("/sys/devices/system/cpu/cpu[1-9]*/online")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range others {
			if err := os.WriteFile(file, []byte("0"), 0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.WriteFile(file, []byte("1"), 0) })
		}
	}
	t.Cleanup(testenv.Unpreempted(t))
}
