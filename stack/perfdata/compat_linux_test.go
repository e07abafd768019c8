package perfdata

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// TestCompat: the stacks that perf copied from a 32-bit program are walked, which perf itself does not.
func TestCompat(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Tool("perf"))
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Fatal(err)
	}
	pid := stacktest.StartChain(t, "-static")
	file := filepath.Join(t.TempDir(), "perf.data")
	recordPerf(t, perf, pid, file, "8192")
	functionAt := stacktest.Functions(t, fmt.Sprintf("/proc/%d/exe", pid))
	p, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	samples, errOf := p.Samples()
	want := []string{"leaf", "third", "second", "first", "main"}
	n, whole := 0, 0
	var dst [stack.MaxFrames]stack.Frame
	for s := range samples {
		if s.Regs == nil || s.Regs.Machine != elf.EM_386 {
			t.Fatalf("registers %+v", s.Regs)
		}
		walker := stack.CFIWalker{Modules: s.Modules}
		k, end := walker.Walk(dst[:], s.Regs, s.Stack)
		var names []string
		for _, f := range dst[:k] {
			names = append(names, functionAt(f.LookupPC()))
		}
		if names[0] != "leaf" {
			continue
		}
		n++
		if end == stack.StopBottom && k > len(want) && slices.Equal(names[:len(want)], want) && names[k-1] == "_start" {
			whole++
		} else if n-whole < 4 {
			t.Logf("%v: %q", end, names)
		}
	}
	if err := errOf(); err != nil {
		t.Log(err)
	}
	if n < 100 || whole < n*98/100 {
		t.Errorf("%d of %d stacks are whole", whole, n)
	}
}
