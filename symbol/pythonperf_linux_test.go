package symbol

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// pythonPerfProgram calls itself a few times and then says what its own perf map
// has of it, while the functions are still on the stack.
const pythonPerfProgram = `
import os, sys
def deep(n):
    if n:
        return deep(n - 1)
    name = '/tmp/perf-%d.map' % os.getpid()
    for line in open(name):
        if line.split(' ', 2)[2].startswith(('py::deep:', 'py::<module>:<string>')):
            print(line, end='')
    print('.', flush=True)
    sys.stdin.read()
deep(5)
`

// TestPythonPerf names the trampolines of a running python -X perf, of every version
// that has the option (3.12), through the process.
func TestPythonPerf(t *testing.T) {
	ran := 0
	for _, python := range testenv.Pythons(t) {
		var minor int
		if fmt.Sscanf(filepath.Base(python), "python3.%d", &minor); minor < 12 {
			continue
		}
		ran++
		t.Run(filepath.Base(python), func(t *testing.T) {
			cmd := testenv.Command(t, python, "-X", "perf", "-c", pythonPerfProgram)
			cmd.Stderr = os.Stderr
			in, out := testenv.Piped(t, cmd)
			defer os.Remove(fmt.Sprintf("/tmp/perf-%d.map", cmd.Process.Pid))
			defer func() { _ = in.Close(); _ = cmd.Wait() }()
			comparePythonPerf(t, cmd.Process.Pid, out)
		})
	}
	if ran == 0 {
		testenv.Need(t, testenv.Tool("python3.12"))
	}
}

// comparePythonPerf resolves addresses of all lines that the program prints.
func comparePythonPerf(t *testing.T, pid int, out io.Reader) {
	var lines []string
	for s := bufio.NewScanner(out); s.Scan() && s.Text() != "."; {
		lines = append(lines, s.Text())
	}
	p, err := OpenProcess(pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, line := range lines {
		var start, size uint64
		var name string
		if _, err := fmt.Sscanf(line, "%x %x %s", &start, &size, &name); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for _, off := range []uint64{0, size - 1} {
			f := p.Resolve(nil, []uint64{start + off})[0]
			if f.Name != name || f.Offset != off || !strings.HasPrefix(f.Name, "py::") {
				t.Errorf("%s: got %+v", line, f)
			}
		}
	}
	if n := strings.Count(strings.Join(lines, "\n"), " py::deep:"); n != 1 || len(lines) < 2 {
		t.Errorf("%d functions of that name: %q", n, lines)
	}
}
