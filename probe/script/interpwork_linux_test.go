package script_test

import (
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script"
)

// TestInterpretWork: with the contexts of a process whose work is known, the interpreter emits the
// same records as the kernel, and leaves the same maps.
func TestInterpretWork(t *testing.T) {
	testenv.Need(t, testenv.Native, testenv.Root, testenv.Ringbuf, testenv.Uprobes, testenv.Tracefs)
	for _, c := range script.Cases(t, "testdata/work.txt") {
		t.Run(c.Name, func(t *testing.T) {
			child := startWork(t)
			p := script.MustCompile(t, c.Text, &script.Options{Params: child.params()})
			p.Interpret(t, child.Process.Pid, "scriptwork", child.work)
		})
	}
}
