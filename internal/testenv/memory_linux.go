package testenv

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// LimitMemory has the kernel refuse this process more than so many bytes of memory
// of its own beyond what it has mapped now, until the test ends: where a bound of
// what is tested regresses, the Go runtime says which allocation was one too many,
// and the machine doesn't notice. Main has set a limit of 2 GiB by then, which
// holds if it is lower.
func LimitMemory(t testing.TB, bytes uint64) {
	t.Helper()
	was, err := limitMemory(bytes)
	if err != nil {
		t.Fatal(err)
	}
	resetMemory(t, was)
}

// AllowMemory lifts the limit that Main has set until the test ends. It is for a
// test that starts what needs more and has a bound of its own, as a virtual machine.
func AllowMemory(t testing.TB) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &was); err != nil {
		t.Fatalf("limit of memory: %v", err)
	}
	resetMemory(t, was)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: was.Max, Max: was.Max}); err != nil {
		t.Fatalf("limit of memory: %v", err)
	}
}

// resetMemory sets the limit to what it was when the test ends.
func resetMemory(t testing.TB, was unix.Rlimit) {
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &was); err != nil {
			t.Errorf("limit of memory: %v", err)
		}
	})
}

// limitMemory lowers this process's limit of private writable memory and returns
// what it was. What is reserved without access isn't counted, nor are files and
// shared memory; what is mapped already is, and goes on top: the race detector's
// shadow is terabytes, of which nearly nothing exists (mm/mmap.c, may_expand_vm;
// since Linux 4.7). What replaces a reservation is counted but not refused, and the
// heap is made so: it is the mapping after the one too many that fails, of which no
// heap grows without. Only the soft limit is set. Programs that the test starts
// inherit it, and may raise it.
func limitMemory(bytes uint64) (was unix.Rlimit, err error) {
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &was); err != nil {
		return was, fmt.Errorf("limit of memory: %w", err)
	}
	mapped, err := mappedData()
	if err != nil {
		return was, fmt.Errorf("limit of memory: %w", err)
	}
	lower := was
	lower.Cur = min(was.Cur, mapped+bytes*memoryFactor)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &lower); err != nil {
		return was, fmt.Errorf("limit of memory: %w", err)
	}
	return was, nil
}

// mappedData is how much of that memory this process has mapped, in bytes.
func mappedData() (uint64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if value, ok := strings.CutPrefix(sc.Text(), "VmData:"); ok {
			var kb uint64
			_, err := fmt.Sscanf(value, "%d kB", &kb)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no VmData", f.Name())
}
