package main

import (
	"bufio"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv("EXPORTER_WORK") != "" {
		work()
		return
	}
	testenv.Main(m)
}

// mark is the number of no system call, which a script counts by its argument.
const mark = 1<<24 + 6

// work is the workload: for each line "VALUE N" it makes N calls of getppid and N marks with the value.
func work() {
	in := bufio.NewReader(os.Stdin)
	for {
		var value, n uintptr
		if _, err := fmt.Fscanln(in, &value, &n); err != nil {
			return
		}
		for range n {
			_, _, _ = syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
			_, _, _ = syscall.RawSyscall(mark, value, 0, 0)
		}
		fmt.Println("done")
	}
}
