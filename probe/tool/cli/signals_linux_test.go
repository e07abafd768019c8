package cli_test

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
)

// TestSecondSignal: the first signal ends the context; a second one ends the process, though
// no goroutine of it can run any more.
func TestSecondSignal(t *testing.T) {
	if os.Getenv("CLI_ROLE") != "" {
		stuck()
		return
	}
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
			cmd.Process.Signal(second)
			err = cmd.Wait()
			if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != second {
				t.Errorf("ended by %v (%v), want %v", cmd.ProcessState, err, second)
			}
		})
	}
}

// stuck is a process that prints its summary and then waits where no signal handler of Go's
// can run: its only thread that may run Go code never lets another have its place.
func stuck() {
	ctx := cli.Context()
	runtime.GOMAXPROCS(1)
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("summary")
	time.Sleep(1500 * time.Millisecond) // the second of timeout(1) passes
	fmt.Println("stuck")
	pipe := make([]int, 2)
	if err := syscall.Pipe(pipe); err != nil {
		panic(err)
	}
	var b [1]byte
	_, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(pipe[0]), uintptr(unsafe.Pointer(&b)), 1)
	fmt.Println("read:", errno)
}
