package stacktest

import (
	"bufio"
	"os"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// StartPython starts a program, which is killed when the test ends, and returns its first line
// of output.
func StartPython(t *testing.T, python, program string) (pid int, line string) {
	t.Helper()
	cmd := testenv.Command(t, python, "-c", program)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err = bufio.NewReaderSize(pipe, 1<<20).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, line
}
