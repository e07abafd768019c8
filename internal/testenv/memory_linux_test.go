package testenv_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// TestMemoryIsLimited: what a test binary, or one of its tests, takes beyond its
// limit ends it.
func TestMemoryIsLimited(t *testing.T) {
	size := map[string]uint64{"main": 4 << 30, "test": 1 << 30, "within": 100 << 20}
	switch r := role(); r {
	case "":
	case "test", "within":
		testenv.LimitMemory(t, 128<<20)
		fallthrough
	default:
		for range size[r] / 10e6 { // untouched: the machine doesn't notice
			taken = append(taken, make([]byte, 10e6))
		}
		fmt.Println(tookAll)
		return
	}
	// The runtime's message depends on which of its mappings is refused: the heap's ("out of
	// memory"), one of its own ("cannot allocate memory", "failed to allocate" for the race
	// detector's), or, in 1 of 600 runs, one for which it does not check the result (SIGSEGV
	// at address 0, spanQueue in Go 1.26). So the test only checks that the child ended while
	// it allocated memory.
	for _, r := range []string{"main", "test"} {
		if out, ok := child(t, "TestMemoryIsLimited", r); ok || strings.Contains(out, tookAll) {
			t.Errorf("%s: ok %v:\n%s", r, ok, out)
		}
	}
	if out, ok := child(t, "TestMemoryIsLimited", "within"); !ok || !strings.Contains(out, tookAll) {
		t.Error(out)
	}

	var before, after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &before); err != nil {
		t.Fatal(err)
	}
	t.Run("lower", func(t *testing.T) { testenv.LimitMemory(t, 256<<20) })
	t.Run("lift", func(t *testing.T) {
		testenv.AllowMemory(t)
		if err := unix.Getrlimit(unix.RLIMIT_DATA, &after); err != nil || after.Cur != before.Max {
			t.Errorf("limit %+v lifted to %+v (%v)", before, after, err)
		}
	})
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &after); err != nil || after != before {
		t.Errorf("limit %+v before, %+v after (%v)", before, after, err)
	}
}

// tookAll is what a child of TestMemoryIsLimited prints when no limit stopped it.
const tookAll = "took all"

// taken is what TestMemoryIsLimited has.
var taken [][]byte
