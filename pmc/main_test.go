package pmc

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// TestMain is also the child of the tests that count what a child does: with
// PMC_CHILD=n it makes n system calls (getppid) and ends, with PMC_TRY it opens
// an event as whoever it is run as and says what it was told. With PMC_CGROUP
// it moves into that group first.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PMC_CGROUP"); dir != "" {
		os.Unsetenv("PMC_CGROUP")
		err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0)
		if err == nil {
			err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
		}
		fmt.Println(err)
		os.Exit(1)
	}
	if n, err := strconv.Atoi(os.Getenv("PMC_CHILD")); err == nil {
		for range n {
			os.Getppid()
		}
		os.Exit(0)
	}
	if s := os.Getenv("PMC_TRY"); s != "" {
		fmt.Println(tryAs(s, os.Getenv("PMC_SCOPE")))
		os.Exit(0)
	}
	testenv.Main(m)
}

// tryAs opens an event and prints the error.
func tryAs(event, scope string) error {
	e, err := ParseEvent(event, nil)
	if err != nil {
		return err
	}
	at := onThread(0)
	if scope == "cpu" {
		at = onCPU(0)
	}
	h, err := openEvent(e, at, nil)
	h.close()
	return err
}
