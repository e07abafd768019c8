package collect_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
)

// pythonProgram calls getppid 23 times in frames of several kinds, and says by
// which: the interpreter's own stack, innermost first, with the number of calls.
const pythonProgram = `
import sys, os, json, threading, functools
counts = {}
def call():
    f, names = sys._getframe(), []
    while f:
        names.append(f.f_code.co_qualname + ":" + str(f.f_code.co_firstlineno))
        f = f.f_back
    names = ";".join(names)
    counts[names] = counts.get(names, 0) + 1
    os.getppid()

class Born:
    def __init__(self): call()

def deep(n): return deep(n - 1) if n else call()
def numbers():
    for i in range(3):
        call()
        yield i
def by_sort(): sorted([3, 1, 2, 5, 4], key=lambda v: call() or v)
def in_thread(f, *args):
    t = threading.Thread(target=f, args=args)
    t.start()
    t.join()

print("ready", flush=True)
sys.stdin.readline()
for i in range(7): call()
deep(30)
sum(numbers())
[Born() for i in range(4)]
by_sort()
in_thread(deep, 3)
in_thread(functools.partial(deep, 5))
kept = compile("call()", "<string>", "exec") # what is freed is another code object soon
exec(kept)
print(json.dumps(counts), flush=True)
sys.stdin.readline()
`

// TestPythonFrames counts a system call by the interpreted stacks that make it,
// exactly as the program itself counts.
func TestPythonFrames(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	for _, python := range testenv.Pythons(t) {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(python)))+"_"+filepath.Base(python), func(t *testing.T) {
			cmd := testenv.Command(t, python, "-c", pythonProgram)
			cmd.Stderr = os.Stderr
			in, out := testenv.Piped(t, cmd)
			defer func() { in.Close(); _ = cmd.Wait() }()
			lines := bufio.NewReaderSize(out, 1<<20)
			line := func() []byte {
				t.Helper()
				b, err := lines.ReadBytes('\n')
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			line()
			pid := cmd.Process.Pid
			c := attach(t, probe.Tracepoint{Group: "syscalls", Name: "sys_enter_getppid"}, &collect.Options{PIDs: []int{pid}, NoKernel: true})
			defer c.Close()
			if err := c.LoadWalker(); err != nil {
				testenv.SkipUnsupported(t, err)
				t.Fatal(err)
			}
			if err := c.AddProcess(pid); err != nil {
				t.Log(err)
			}
			if c.Python(pid) == nil {
				t.Fatal("no interpreter was found")
			}
			fmt.Fprintln(in)
			want := make(map[string]int64)
			if err := json.Unmarshal(line(), &want); err != nil {
				t.Fatal(err)
			}
			got := pythonCounts(t, c, pid)
			if !maps.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
			if n := total(want); n != 23 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

func total(counts map[string]int64) (n int64) {
	for _, v := range counts {
		n += v
	}
	return n
}

// pythonCounts names the interpreted part of each stack, and wants as many native
// frames of the interpreter's loop as there are entries.
func pythonCounts(t *testing.T, c *collect.Collector, pid int) map[string]int64 {
	t.Helper()
	samples, err := c.Samples()
	if err != nil {
		t.Fatal(err)
	}
	p := c.Python(pid)
	got := make(map[string]int64)
	for _, s := range samples {
		var names []string
		loops, entries := 0, 0
		for _, f := range s.User.Frames {
			if f.Source != stack.SourceInterpreter {
				if p.InLoop(f.LookupPC()) {
					loops++
				}
				continue
			}
			if f.Entry {
				entries++
			}
			code, err := p.Code(f.PC)
			if err != nil {
				t.Errorf("%#x: %v", f.PC, err)
			} else if !code.Shim {
				names = append(names, fmt.Sprintf("%s:%d", code.Name, code.FirstLine))
			}
		}
		if s.User.Stopped != stack.StopBottom || loops != entries {
			t.Errorf("%d loops, %d entries, %v: %s", loops, entries, s.User.Stopped, strings.Join(names, ";"))
		}
		got[strings.Join(names, ";")] += int64(s.Count)
	}
	return got
}
