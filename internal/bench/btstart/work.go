package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/bench/peer"
)

// works are what scripts see.
var works = map[string]func(n int) error{
	"getppid": func(n int) error {
		for range n {
			unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		}
		return nil
	},
	"open": func(n int) error {
		for range n {
			unix.Openat(unix.AT_FDCWD, "/nonexistent/file/of/the/benchmark", unix.O_RDONLY, 0)
		}
		return nil
	},
	"read": func(n int) error {
		fd, err := unix.Open("/dev/zero", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		b := make([]byte, 4096)
		for i := range n {
			if _, err := unix.Read(fd, b[:1+i%len(b)]); err != nil {
				return err
			}
		}
		return nil
	},
	"exec": func(n int) error {
		for range n {
			if err := exec.Command("/bin/true", "first", "second", "third").Run(); err != nil {
				return err
			}
		}
		return nil
	},
	"call": func(n int) error {
		for i := range n {
			_ = deep(i, 20)
		}
		return nil
	},
	"sleep": func(n int) error {
		time.Sleep(time.Duration(n) * time.Millisecond)
		return nil
	},
	"spin": func(n int) error {
		for end := time.Now().Add(time.Duration(n) * time.Millisecond); time.Now().Before(end); {
			_ = deep(1, 30)
		}
		return nil
	},
}

// timed are the works whose time does not show what their events cost: two last as long as they are asked to, and
// executions take a millisecond, some more and some less.
var timed = map[string]bool{"sleep": true, "spin": true, "exec": true}

// deep calls leaf below so many frames.
//
//go:noinline
func deep(i, frames int) int {
	if frames == 0 {
		return leaf(i)
	}
	return deep(i, frames-1) + 1
}

// leaf is what scripts have a probe at.
//
//go:noinline
func leaf(i int) int { return i ^ 1 }

// workLine is what a run of work prints: how many nanoseconds it took, and the account of the programs of
// the process that started it.
const workLine = "btstart-work %d %d %d\n"

// work does what a script sees, as the command that bt and bpftrace start when all is attached. Their
// programs' account is what the kernel counted meanwhile, if it counts.
func work(kind string, n int) error {
	runtime.LockOSThread()
	do, ok := works[kind]
	if !ok {
		return fmt.Errorf("no work %q", kind)
	}
	// Without a tracer there are no programs.
	before, _ := peer.AccountOf(os.Getppid())
	start := time.Now()
	if err := do(n); err != nil {
		return err
	}
	took := time.Since(start)
	after, _ := peer.AccountOf(os.Getppid())
	spent := after.Less(before)
	// It begins with a new line, for the tracer prints into the same pipe.
	fmt.Printf("\n"+workLine, took.Nanoseconds(), spent.Runs, spent.Time.Nanoseconds())
	return nil
}

// parseWork finds what work printed in a tracer's output.
func parseWork(printed string) (took time.Duration, spent peer.Account, err error) {
	name, _, _ := strings.Cut(workLine, " ")
	i := strings.Index(printed, name)
	if i < 0 {
		return 0, spent, errors.New("the command did not run")
	}
	_, err = fmt.Sscanf(printed[i:], workLine, &took, &spent.Runs, &spent.Time)
	return took, spent, err
}
