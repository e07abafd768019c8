package testenv

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// memoryLimit is the memory limit of a test binary, in bytes.
const memoryLimit = 2 << 30

// Main runs the tests, which may use at most 2 GiB of memory, and then fails if they left a
// file descriptor open or a goroutine running. It is for TestMain, and does not return. It
// reports a descriptor with what it refers to and, if a test called Need, the test in which it
// appeared; and a goroutine with its stack and where it was started.
//
// Programs that the tests build are not stamped with the state of the repository, which git
// refuses to tell if the checkout belongs to somebody else.
func Main(m *testing.M) {
	os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" -buildvcs=false"))
	if _, err := limitMemory(memoryLimit); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		os.Exit(1)
	}
	before := openFiles()
	code := m.Run()
	if problems := leaks(before); len(problems) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: left behind by the tests:\n%s\n", strings.Join(problems, "\n"))
		if code == 0 {
			code = 1
		}
	}
	os.Exit(code)
}

// leaks returns what is open or running now and was not before. It gives goroutines that are
// about to end a second.
func leaks(before map[string]string) []string {
	var problems []string
	for range 50 {
		problems = append(newFiles(before, openFiles()), strayGoroutines(stacks())...)
		if len(problems) == 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return problems
}

// newFiles compares two lists of descriptors with what they refer to.
func newFiles(before, after map[string]string) []string {
	var found []string
	for fd, what := range after {
		if before[fd] == what || runtimeFile(what) {
			continue
		}
		line := "fd " + fd + " " + what
		if where := appearedIn(fd + " " + what); where != "" {
			line += ", which appeared during " + where
		}
		found = append(found, line)
	}
	slices.Sort(found)
	return found
}

// runtimeFile reports whether the Go runtime opened a file and keeps it: the poller's epoll
// and eventfd. The files of -test.cpuprofile and similar flags are closed before Main checks.
func runtimeFile(what string) bool {
	return strings.HasPrefix(what, "anon_inode:[eventpoll]") ||
		strings.HasPrefix(what, "anon_inode:[eventfd]")
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// strayGoroutines returns the goroutines other than the caller, the runtime's and the testing
// package's own.
func strayGoroutines(dump string) []string {
	var found []string
	for i, g := range strings.Split(strings.TrimSpace(dump), "\n\n") {
		if i == 0 || ownGoroutine(g) { // the first is the caller
			continue
		}
		found = append(found, g)
	}
	return found
}

func ownGoroutine(stack string) bool {
	for _, s := range []string{
		"os/signal.signal_recv", "os/signal.loop", "created by testing.", "runtime.ensureSigM",
		"runtime.ReadTrace", "testing.(*M).startAlarm", "internal/synctest", "testenv.startPrograms",
	} {
		if strings.Contains(stack, s) {
			return true
		}
	}
	return false
}

// NoPreemption returns the environment variable that keeps a Go program's runtime from
// preempting goroutines by signals, which interrupt system calls of threads that the runtime
// takes to be running.
func NoPreemption() string { return "GODEBUG=" + os.Getenv("GODEBUG") + ",asyncpreemptoff=1" }
