package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool"
)

// TestPython shows the functions of a Python program inside the interpreter's loop
// that runs them, live and in the recording.
func TestPython(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.File("/usr/bin/python3.11"),
		testenv.Feature(feature.BPFLoop), testenv.Feature(feature.TaskBTF), testenv.Feature(feature.TaskPtRegs))
	cmd := testenv.Command(t, "/usr/bin/python3.11", "-c", `
def key(v): return sum(range(1000))
def outer(): sorted([1, 2, 3], key=key)
while True: outer()`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var live bytes.Buffer
	var rec string
	// The rules of its files may take a while to compile, on a busy machine.
	for seconds := 1; seconds < 60 && !strings.Contains(live.String(), "py::key:"); seconds *= 2 {
		rec = filepath.Join(t.TempDir(), "rec")
		live.Reset()
		args := []string{"-p", strconv.Itoa(cmd.Process.Pid), "-f", "-U", "-F", "499", "-d", fmt.Sprint(seconds), "-record", rec}
		if err := run(t.Context(), args, tool.NewOutput(&live)); err != nil {
			t.Fatal(err)
		}
	}
	// The file of a loop's frame may have no name for its cold part.
	const whole = `_start;.*;(_PyEval_EvalFrameDefault|\[unknown\]);py::<module>:<string>;py::outer:<string>;.*` +
		`;(_PyEval_EvalFrameDefault|\[unknown\]);py::key:<string>[; ]`
	if !regexp.MustCompile(whole).MatchString(live.String()) {
		t.Errorf("no whole stack in\n%s", live.String())
	}
	for line := range strings.Lines(live.String()) {
		if i := strings.Index(line, "py::outer:"); i >= 0 && !strings.HasSuffix(line[:i], "py::<module>:<string>;") {
			t.Errorf("outer is not called by the module: %s", line)
		}
	}
	var replayed bytes.Buffer
	if err := run(t.Context(), []string{"-replay", rec, "-f"}, tool.NewOutput(&replayed)); err != nil {
		t.Fatal(err)
	}
	if replayed.String() != live.String() {
		t.Errorf("replayed\n%s\nlive\n%s", replayed.String(), live.String())
	}
}
