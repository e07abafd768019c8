package python

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

var recordPython = flag.Bool("record-python", false, "record the frames of each CPython to testdata/python")

// pythonProgram blocks threads in every kind of frame that the interpreter has,
// then prints what it knows of them itself: for each thread its number and its
// frames, innermost first.
const pythonProgram = `
import sys, threading, json, functools, time
gate = threading.Event()
ready = []
def block():
    ready.append(threading.get_native_id())
    gate.wait()

class Born:
    def __init__(self, n):
        self.n = n
        block()

class Ünïcode:
    def größe(self):
        block()

def deep(n):
    if n:
        return deep(n - 1)
    block()

def numbers():
    yield 1
    block()
    yield 2

def key(v):
    block()
    return v

def by_sort():
    sorted([3, 1, 2], key=key)

def by_generator():
    return sum(x for x in numbers())

def by_init():
    return [Born(i) for i in range(2)]

def by_partial():
    functools.reduce(lambda a, b: functools.partial(deep, 3)(), [1, 2, 3])

def by_exec():
    exec(compile("def made():\n\n    block()\nmade()", "<made>", "exec"), globals())

def by_try():
    try:
        1 / 0
    except ZeroDivisionError:
        deep(700)

def stay():
    while True:
        time.sleep(1000)

def report():
    while len(ready) < count:
        time.sleep(0.001)
    out, ids = {}, {t.ident: t.native_id for t in threading.enumerate()}
    waiting = True
    while waiting: # until all are where they stay
        out.clear()
        waiting = False
        for ident, f in sys._current_frames().items():
            if ident == threading.get_ident():
                continue
            frames = []
            while f:
                frames.append({"Name": f.f_code.co_qualname, "File": f.f_code.co_filename, "Line": f.f_lineno})
                f = f.f_back
            last = frames[0]["Name"]
            if last != ("stay" if ident == threading.main_thread().ident else "Condition.wait"):
                waiting = True
            out[ids[ident]] = frames
    print(json.dumps(out), flush=True)

works = [by_sort, by_generator, by_init, by_partial, by_exec, by_try, Ünïcode().größe, lambda: block()]
count = len(works)
sys.setrecursionlimit(3000)
for f in works:
    threading.Thread(target=f, daemon=True).start()
threading.Thread(target=report, daemon=True).start()
stay()
`

// TestPython compares the frames of blocked threads with what the interpreter
// itself says of them: sys._current_frames.
func TestPython(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for _, python := range testenv.Pythons(t) {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(python)))+"_"+filepath.Base(python), func(t *testing.T) {
			program := pythonProgram
			if *recordPython {
				program = strings.Replace(program, "deep(700)", "deep(7)", 1)
			}
			pid, line := stacktest.StartPython(t, python, program)
			want := make(map[string][]pythonFrame)
			if err := json.Unmarshal([]byte(line), &want); err != nil {
				t.Fatal(err)
			}
			p, err := Open(pid)
			if err != nil {
				t.Fatal(err)
			}
			if v := fmt.Sprintf("python3.%d", p.Version>>16&0xff); v != filepath.Base(python) {
				t.Errorf("version %#x of %s", p.Version, python)
			}
			mem := &stacktest.Recorder{Memory: p.mem, Bytes: make(map[uint64]byte)}
			p.mem = mem
			comparePython(t, p, want)
			if len(want) != 9 {
				t.Errorf("%d threads", len(want))
			}
			if *recordPython {
				if _, err := layoutOf(p.Version, mem, p.runtime); err != nil {
					t.Fatal(err)
				}
				writeRecordedPython(t, &recordedPython{
					Recipe: filepath.Base(python) + " -c " + program, Oracle: "sys._current_frames",
					Version: p.Version, Runtime: p.runtime, CodeType: p.codeType, Memory: mem.Runs(), Threads: want,
				})
			}
		})
	}
}

func writeRecordedPython(t *testing.T, rec *recordedPython) {
	b, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	v := rec.Version
	name := fmt.Sprintf("testdata/python/%d.%d.%d.json", v>>24, v>>16&0xff, v>>8&0xff)
	if err := os.WriteFile(name, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// churn is a program in which threads begin and end all the time, while its main thread stays.
const churn = `
import threading, time

def begin():
    while True:
        threads = [threading.Thread(target=lambda: None) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

def stay():
    print("ready", flush=True)
    while True:
        time.sleep(1000)

threading.Thread(target=begin, daemon=True).start()
stay()
`

// TestThreadsEnd reads the frames of a thread while others begin and end: the interpreter's
// list of threads changes while it is read, and memory of ended threads is used again.
func TestThreadsEnd(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for _, python := range testenv.Pythons(t) {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(python)))+"_"+filepath.Base(python), func(t *testing.T) {
			pid, _ := stacktest.StartPython(t, python, churn)
			p, err := Open(pid)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2_000 {
				frames, err := p.Frames(nil, pid)
				if err != nil {
					t.Fatalf("read %d: %v", i, err)
				}
				if len(frames) != 2 {
					t.Fatalf("read %d: %d frames, want stay and <module>", i, len(frames))
				}
			}
		})
	}
}
