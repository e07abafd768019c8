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

// memoryLimit is how much memory a test binary may have.
const memoryLimit = 2 << 30

// Main runs the tests, which may use 2 GiB of memory and no more, and then fails if
// they left a file descriptor open or a goroutine running. It is for TestMain, and
// does not return. A descriptor is reported with what it refers to and, if a test
// called Need, with the test during which it appeared; a goroutine with its stack
// and where it was started.
func Main(m *testing.M) {
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

// leaks lists what is open or running now and was not before. Goroutines that
// are about to end are given a second.
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

// newFiles compares two listings of descriptor and what it refers to.
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

// runtimeFile tells what the Go runtime opens once and keeps: the poller's
// epoll and eventfd, the files of -test.cpuprofile and the like apart, which
// are closed before Main looks.
func runtimeFile(what string) bool {
	return strings.HasPrefix(what, "anon_inode:[eventpoll]") ||
		strings.HasPrefix(what, "anon_inode:[eventfd]")
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// strayGoroutines lists the goroutines that are neither the caller nor the
// runtime's or the testing package's own.
func strayGoroutines(dump string) []string {
	var found []string
	for i, g := range strings.Split(strings.TrimSpace(dump), "\n\n") {
		if i == 0 || ownGoroutine(g) { // the first is the caller's
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

// NoPreemption is the variable that keeps a Go program's runtime from preempting
// goroutines by signals, which interrupt the system calls of a thread that it takes
// to be running.
func NoPreemption() string { return "GODEBUG=" + os.Getenv("GODEBUG") + ",asyncpreemptoff=1" }
