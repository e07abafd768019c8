package testenv

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// LimitMemory makes the kernel refuse this process more than the given number of bytes of
// private memory beyond what it has mapped now, until the test ends. If a bound in the tested
// code regresses, the Go runtime reports the allocation that exceeds the limit, and the
// machine is not affected. Main sets a limit of 2 GiB, which remains in force if it is lower.
func LimitMemory(t testing.TB, bytes uint64) {
	t.Helper()
	was, err := limitMemory(bytes)
	if err != nil {
		t.Fatal(err)
	}
	resetMemory(t, was)
}

// AllowMemory lifts Main's limit until the test ends. It is for tests that start a program
// with a bound of its own that needs more, such as a virtual machine.
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

// resetMemory restores the limit when the test ends.
func resetMemory(t testing.TB, was unix.Rlimit) {
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &was); err != nil {
			t.Errorf("limit of memory: %v", err)
		}
	})
}

// limitMemory lowers this process's limit of private writable memory and returns the previous
// one. Memory that is reserved without access does not count, nor do files and shared memory.
// Memory that is already mapped counts, so it is added: the race detector's shadow has
// terabytes, of which nearly nothing is in use (mm/mmap.c, may_expand_vm; since Linux 4.7). A
// mapping that replaces a reservation counts but is not refused, and the heap grows in this
// way: so the next other mapping fails, without which no heap can grow. Only the soft limit is
// set. Programs that the test starts inherit it, and may raise it.
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

// mappedData returns how many bytes of such memory this process has mapped.
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
