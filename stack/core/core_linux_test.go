package core

import (
	"bytes"
	"compress/gzip"
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
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// TestCoreMatchesEuStack takes a core file of a running program with threads,
// and compares all stacks with eu-stack's, and those of the small core file made
// of it with gdb's.
func TestCoreMatchesEuStack(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Long, testenv.Tool("gcore"), testenv.Tool("eu-stack"), testenv.Tool("gdb"))
	testenv.Need(t, testenv.Tool("python3"))
	// It says when its threads are where they stay: a busy machine had not started them.
	pid, _ := stacktest.StartPython(t, "python3", `
import threading, json, time
ready = threading.Barrier(3)
def f(n):
    if n: return f(n-1)
    ready.wait()
    if threading.current_thread() is threading.main_thread(): print(flush=True)
    while True: json.dumps(list(range(1000)))
def sleep():
    ready.wait()
    time.sleep(1000)
threading.Thread(target=f, args=(20,), daemon=True).start()
threading.Thread(target=sleep, daemon=True).start()
f(5)`)
	dir := t.TempDir()
	stacktest.Gcore(t, filepath.Join(dir, "core"), pid)
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
			if g := stacktest.GDB(t, exe, small); !slices.Equal(g, chain) {
				t.Errorf("gdb on the small core: %#x, want %#x", g, chain)
			}
		}
	}
}

// TestCorePythonGDB: gdb prints more frames of a Python core file than there are
// here, 22 and 14 of a 3.11 with DWARF. What it has more are functions that were inlined, which
// have no frame of their own; the others are the same, to _start.
func TestCorePythonGDB(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("gcore"), testenv.Tool("gdb"))
	python := testenv.Pythons(t)[0]
	pid, _ := stacktest.StartPython(t, python, `
import time
def deep(n):
    if n: return deep(n - 1)
    print(flush=True)
    time.sleep(1000)
deep(3)`)
	prefix := filepath.Join(t.TempDir(), "core")
	stacktest.Gcore(t, prefix, pid)
	path := prefix + "." + strconv.Itoa(pid)
	got, want := coreStacks(t, path)[pid], stacktest.GDB(t, python, path)
	if !slices.Equal(got, want) {
		t.Errorf("got %#x\ngdb has %#x", got, want)
	}
	t.Logf("%s: %d frames, gdb's %d", python, len(got), len(want))
}

func shrink(t *testing.T, from, to string) {
	t.Helper()
	c, err := Open(from)
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
	if err := Write(f, c, mods); err != nil {
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
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mods, err := c.Modules(nil)
	if err != nil {
		t.Log(err)
	}
	w := &stack.CFIWalker{Modules: mods}
	out := make(map[int][]uint64)
	frames := make([]stack.Frame, 1000)
	for i := range c.Threads {
		n, end := w.Walk(frames, &c.Threads[i].Regs, c)
		if end != stack.StopBottom {
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
	c, err := New(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	fifo := root + "/bin/prog"
	if err := errors.Join(os.Mkdir(root+"/bin", 0o755), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	var no *procfs.NotRegularError
	if _, err := c.Modules(procfs.DirFS(root)); !errors.As(err, &no) {
		t.Errorf("modules: %v", err)
	}
	if _, err := Open(fifo); !errors.As(err, &no) {
		t.Errorf("core file: %v", err)
	}
}

// TestCoreCompat: the core file of a 32-bit process, and the small one made of it, have the stacks that gdb
// finds there.
func TestCoreCompat(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("gcore"), testenv.Tool("gdb"))
	pid := stacktest.StartChain(t, "-DSIGNAL", "-DFLAGS=SA_SIGINFO")
	dir := t.TempDir()
	stacktest.Gcore(t, filepath.Join(dir, "core"), pid)
	path := filepath.Join(dir, "core."+strconv.Itoa(pid))
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		t.Fatal(err)
	}
	got, want := coreStacks(t, path)[pid], stacktest.GDB(t, exe, path)
	if len(got) < 6 || !slices.Equal(got, want) {
		t.Errorf("got %#x\ngdb has %#x", got, want)
	}
	small := filepath.Join(dir, "small")
	shrink(t, path, small)
	if got := coreStacks(t, small)[pid]; !slices.Equal(got, want) {
		t.Errorf("the small core: got %#x, want %#x", got, want)
	}
	if got := stacktest.GDB(t, exe, small); !slices.Equal(got, want) {
		t.Errorf("gdb on the small core: %#x, want %#x", got, want)
	}
}
