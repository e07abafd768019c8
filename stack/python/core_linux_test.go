package python

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/core"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// TestCorePython reads the interpreted frames of core files, gcore's and the
// small one made of it, and has as many native frames of the interpreter's loop as
// there are entries to it.
func TestCorePython(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("gcore"))
	python := testenv.Pythons(t)[0] // TestPython has the others
	program := strings.Replace(pythonProgram, "deep(700)", "deep(7)", 1)
	pid, line := stacktest.StartPython(t, python, program)
	want := make(map[string][]pythonFrame)
	if err := json.Unmarshal([]byte(line), &want); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stacktest.Gcore(t, filepath.Join(dir, "core"), pid)
	c, err := core.Open(filepath.Join(dir, "core."+strconv.Itoa(pid)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := compareCorePython(t, c, want)
	var tids []int
	for _, thread := range c.Threads {
		tids = append(tids, thread.TID)
	}
	mods, err := c.Modules(nil)
	if err != nil {
		t.Log(err)
	}
	var small bytes.Buffer
	if err := core.Write(&small, c, mods, p.Keep(tids...)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: small core of %d bytes", python, small.Len())
	again, err := core.New(bytes.NewReader(small.Bytes()), int64(small.Len()))
	if err != nil {
		t.Fatal(err)
	}
	compareCorePython(t, again, want)
}

func compareCorePython(t *testing.T, c *core.File, want map[string][]pythonFrame) *Interpreter {
	t.Helper()
	p, err := OpenCore(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	comparePython(t, p, want)
	mods, err := c.Modules(nil)
	if err != nil {
		t.Log(err)
	}
	dst := make([]stack.Frame, 4096)
	for i := range c.Threads {
		thread := &c.Threads[i]
		n, end := (&stack.CFIWalker{Modules: mods}).Walk(dst, &thread.Regs, c)
		all, err := p.Frames(dst[:n], thread.TID)
		if err != nil {
			t.Error(err)
		}
		native, runs := split(all)
		inLoop := func(f stack.Frame) bool { return p.InLoop(f.LookupPC()) }
		loops := 0
		for _, f := range native {
			if inLoop(f) {
				loops++
			}
		}
		if end != stack.StopBottom || len(want[strconv.Itoa(thread.TID)]) > 0 && loops != len(runs) {
			t.Errorf("thread %d: %v, %d loops, %d entries", thread.TID, end, loops, len(runs))
		}
		merged := Merge(nil, all, true, inLoop)
		for i, f := range merged {
			if f.Entry && (i+1 == len(merged) || !inLoop(merged[i+1])) {
				t.Errorf("thread %d: frame %d is an entry that no loop is below", thread.TID, i)
			}
		}
	}
	return p
}
