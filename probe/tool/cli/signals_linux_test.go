package cli_test

import (
	"bufio"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
)

func init() {
	if os.Getenv("CLI_ROLE") != "" { // before the test's own goroutines, as in a program
		os.Exit(cli.Main(stuck))
	}
}

// TestSecondSignal: the first signal ends the context; a second one ends the process, though
// its work waits where a signal can only kill. The kernel gives the signal to the first thread:
// when that was the one that waited, nobody heard it.
func TestSecondSignal(t *testing.T) {
	for _, second := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(second.String(), func(t *testing.T) {
			t.Parallel() // the child waits for more than a second
			cmd := testenv.Command(t, os.Args[0], "-test.run=^TestSecondSignal$")
			cmd.Env = append(os.Environ(), "CLI_ROLE=stuck")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			next := func(want string) {
				t.Helper()
				if !lines.Scan() || lines.Text() != want {
					t.Fatalf("the child says %q, want %q (%v)", lines.Text(), want, lines.Err())
				}
			}
			next("ready")
			cmd.Process.Signal(syscall.SIGINT)
			cmd.Process.Signal(syscall.SIGTERM) // timeout(1): at once, does not count
			next("summary")
			next("stuck")
			time.Sleep(100 * time.Millisecond) // it is now
			cmd.Process.Signal(second)
			err = cmd.Wait()
			if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != second {
				t.Errorf("ended by %v (%v), want %v", cmd.ProcessState, err, second)
			}
		})
	}
}

// stuck prints its summary, and then waits in the kernel like a thread that asks a file system
// that does not answer: only what ends the process ends that.
func stuck() int {
	ctx := cli.Context()
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("summary")
	time.Sleep(1500 * time.Millisecond) // the second of timeout(1) passes
	fmt.Println("stuck")
	fmt.Println("vfork:", waitForChild())
	return 1
}

// waitForChild waits for a child that goes on until this process ends (vfork(2): the parent is
// suspended, killable). The child, a copy of this thread, makes system calls only.
//
//go:norace
//go:nosplit
func waitForChild() syscall.Errno {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, syscall.CLONE_VFORK|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 || errno != 0 {
		return errno
	}
	syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	for {
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
