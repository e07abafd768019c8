package stack

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// TestCoreMatchesEuStack takes a core file of a running program with threads,
// and compares all stacks with eu-stack's, and those of the small core file made
// of it with gdb's.
func TestCoreMatchesEuStack(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Long, testenv.Tool("gcore"), testenv.Tool("eu-stack"), testenv.Tool("gdb"))
	pid := stacktest.Workload{Name: "python3", Argv: []string{"python3", "-c", `
import threading, json, time
def f(n):
    if n: return f(n-1)
    while True: json.dumps(list(range(1000)))
threading.Thread(target=f, args=(20,), daemon=True).start()
threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
f(5)`}}.Start(t)
	dir := t.TempDir()
	takeCore(t, filepath.Join(dir, "core"), pid)
	path := filepath.Join(dir, "core."+strconv.Itoa(pid))
	want := euStack(t, path)
	got := coreStacks(t, path)
	if len(want) != 3 || len(got) != 3 {
		t.Fatalf("%d threads, eu-stack has %d", len(got), len(want))
	}
	for tid, chain := range want {
		if !slices.Equal(got[tid], chain) {
			t.Errorf("thread %d: got %#x\neu-stack has %#x", tid, got[tid], chain)
		}
	}

	small := filepath.Join(dir, "small")
	shrink(t, path, small)
	for tid, chain := range coreStacks(t, small) {
		if !slices.Equal(chain, want[tid]) {
			t.Errorf("thread %d of the small core: got %#x, want %#x", tid, chain, want[tid])
		}
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		t.Fatal(err)
	}
	for tid, chain := range want { // gdb starts with the first thread
		if tid == pid {
			if g := gdbBacktrace(t, exe, small); !slices.Equal(g, chain) {
				t.Errorf("gdb on the small core: %#x, want %#x", g, chain)
			}
		}
	}
}

// TestCorePython reads the interpreted frames of core files, gcore's and the
// small one made of it, and has as many native frames of the interpreter's loop as
// there are entries to it.
func TestCorePython(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("gcore"))
	python := testenv.Pythons(t)[0] // TestPython has the others
	program := strings.Replace(pythonProgram, "deep(700)", "deep(7)", 1)
	pid, line := startPython(t, python, program)
	want := make(map[string][]pythonFrame)
	if err := json.Unmarshal([]byte(line), &want); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	takeCore(t, filepath.Join(dir, "core"), pid)
	c, err := OpenCore(filepath.Join(dir, "core."+strconv.Itoa(pid)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	compareCorePython(t, c, want)
	mods, err := c.Modules(nil)
	if err != nil {
		t.Log(err)
	}
	var small bytes.Buffer
	if err := WriteCore(&small, c, mods); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: small core of %d bytes", python, small.Len())
	again, err := NewCore(bytes.NewReader(small.Bytes()), int64(small.Len()))
	if err != nil {
		t.Fatal(err)
	}
	compareCorePython(t, again, want)
}

// TestCorePythonGDB: gdb prints more frames of a Python core file than there are
// here, 22 and 14 of a 3.11 with DWARF. What it has more are functions that were inlined, which
// have no frame of their own; the others are the same, to _start.
func TestCorePythonGDB(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("gcore"), testenv.Tool("gdb"))
	python := testenv.Pythons(t)[0]
	pid, _ := startPython(t, python, `
import time
def deep(n):
    if n: return deep(n - 1)
    print(flush=True)
    time.sleep(1000)
deep(3)`)
	prefix := filepath.Join(t.TempDir(), "core")
	takeCore(t, prefix, pid)
	path := prefix + "." + strconv.Itoa(pid)
	got, want := coreStacks(t, path)[pid], gdbBacktrace(t, python, path)
	if !slices.Equal(got, want) {
		t.Errorf("got %#x\ngdb has %#x", got, want)
	}
	t.Logf("%s: %d frames, gdb's %d", python, len(got), len(want))
}

func compareCorePython(t *testing.T, c *Core, want map[string][]pythonFrame) {
	t.Helper()
	p, err := c.Python(nil)
	if err != nil {
		t.Fatal(err)
	}
	comparePython(t, p, want)
	mods, err := c.Modules(nil)
	if err != nil {
		t.Log(err)
	}
	dst := make([]Frame, 4096)
	for i := range c.Threads {
		thread := &c.Threads[i]
		n, end := c.Walker(mods).Walk(dst, &thread.Regs, c)
		all, err := p.Frames(dst[:n], thread.TID)
		if err != nil {
			t.Error(err)
		}
		native, runs := splitInterpreted(all)
		inLoop := func(f Frame) bool { return p.InLoop(f.LookupPC()) }
		loops := 0
		for _, f := range native {
			if inLoop(f) {
				loops++
			}
		}
		if end != EndBottom || len(want[strconv.Itoa(thread.TID)]) > 0 && loops != len(runs) {
			t.Errorf("thread %d: %v, %d loops, %d entries", thread.TID, end, loops, len(runs))
		}
		merged := MergeInterpreted(nil, all, true, inLoop)
		for i, f := range merged {
			if f.Entry && (i+1 == len(merged) || !inLoop(merged[i+1])) {
				t.Errorf("thread %d: frame %d is an entry that no loop is below", thread.TID, i)
			}
		}
	}
}

// takeCore writes a process's core file to prefix.PID.
func takeCore(t *testing.T, prefix string, pid int) {
	t.Helper()
	if out, err := testenv.Command(t, "gcore", "-o", prefix, strconv.Itoa(pid)).CombinedOutput(); err != nil {
		t.Fatalf("gcore: %v: %s", err, out)
	}
}

func shrink(t *testing.T, from, to string) {
	t.Helper()
	c, err := OpenCore(from)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	mods, err := c.Modules(nil)
	if err != nil {
		t.Log(err)
	}
	if err := WriteCore(f, c, mods); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	packed := new(bytes.Buffer)
	z := gzip.NewWriter(packed)
	if _, err := z.Write(b); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	t.Logf("core file of %d bytes made one of %d, compressed %d", a.Size(), len(b), packed.Len())
	if packed.Len() > 20_000 {
		t.Errorf("%d bytes compressed", packed.Len())
	}
}

func coreStacks(t *testing.T, path string) map[int][]uint64 {
	t.Helper()
	c, err := OpenCore(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mods, err := c.Modules(nil)
	if err != nil {
		t.Log(err)
	}
	w := c.Walker(mods)
	out := make(map[int][]uint64)
	frames := make([]Frame, 1000)
	for i := range c.Threads {
		n, end := w.Walk(frames, &c.Threads[i].Regs, c)
		if end != EndBottom {
			t.Errorf("thread %d ends with %v", c.Threads[i].TID, end)
		}
		out[c.Threads[i].TID] = pcs(frames[:n])
	}
	return out
}

func euStack(t *testing.T, core string) map[int][]uint64 {
	t.Helper()
	b, err := testenv.Command(t, "eu-stack", "--core", core).Output()
	if len(b) == 0 {
		t.Fatal(err)
	}
	out := make(map[int][]uint64)
	tid := 0
	for line := range strings.Lines(string(b)) {
		var n int
		var pc uint64
		if k, _ := fmt.Sscanf(line, "TID %d:", &n); k == 1 {
			tid = n
		} else if k, _ := fmt.Sscanf(line, "#%d 0x%x", &n, &pc); k == 2 {
			out[tid] = append(out[tid], pc)
		}
	}
	return out
}

// TestCoreNamesFIFO: a core file may name any file as one of the process's, and
// that of a FIFO made corestack wait for ever.
func TestCoreNamesFIFO(t *testing.T) {
	image, _ := testCore(t)
	c, err := NewCore(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	fifo := root + "/bin/prog"
	if err := errors.Join(os.Mkdir(root+"/bin", 0o755), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	var no *procfs.NotRegularError
	if _, err := c.Modules(&CoreOptions{Root: procfs.DirFS(root)}); !errors.As(err, &no) {
		t.Errorf("modules: %v", err)
	}
	if _, err := OpenCore(fifo); !errors.As(err, &no) {
		t.Errorf("core file: %v", err)
	}
}
