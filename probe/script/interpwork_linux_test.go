package script_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script"
)

// TestInterpretWork: with the contexts of a process whose work is known, the interpreter emits the
// same records as the kernel, and leaves the same maps. Scripts that read the kernel's memory, or
// walk stacks, are left out: neither is recorded.
func TestInterpretWork(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Uprobes, testenv.Tracefs)
	for _, c := range script.Cases(t, "testdata/work.txt") {
		if strings.Contains(c.Text, "curtask") || strings.Contains(c.Text, "stack(") {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			child := startWork(t)
			p := script.MustCompile(t, c.Text, &script.Options{Params: child.params()})
			p.Interpret(t, child.Process.Pid, "scriptwork", child.work)
		})
	}
}
