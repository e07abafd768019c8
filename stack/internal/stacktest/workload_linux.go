package stacktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// Workload is a program that computes until it is killed.
type Workload struct {
	Name string
	Argv []string
}

// JIT has code that no debugger can unwind: frame pointers lead through it, and call frame
// information on from there.
var JIT = Workload{"node", []string{"node", "-e", `
function deep(n) { if (n > 0) return deep(n - 1); let m = {}; for (let i = 0; i < 5000; i++) m["k" + i % 100] = JSON.stringify({i}); return Object.keys(m).sort().map(k => m[k].length).reduce((a, b) => a + b); }
for (;;) deep(20);`}}

// Workloads are programs without frame pointers, as Debian ships them.
var Workloads = []Workload{
	{"bash", []string{
		"bash", "-c",
		`f() { if (( $1 > 0 )); then f $(( $1 - 1 )); else for ((i=0;i<300;i++)); do x=${x//a/bb}; x=${x:0:50}aa; done; fi; }; while :; do f 25; done`,
	}},
	{"python3", []string{"python3", "-c", `
import json, re
def deep(n): return deep(n-1) if n else [json.loads(json.dumps({"a": list(range(50)), "b": re.sub("a+", "b", "xaay"*20)})), sorted(range(300), key=lambda v: -v)]
while True: deep(20)`}},
	{"perl", []string{
		"perl", "-e",
		`sub f { my $n = shift; return $n ? f($n-1) : do { my $s = "abc" x 100; $s =~ s/b+/x/g; my @a = sort map { $_ * 3 % 17 } 1..200; scalar @a } } while (1) { f(10) }`,
	}},
	{"xz", []string{"sh", "-c", "cat /dev/urandom | exec xz -9 -T1 > /dev/null"}},
	{"openssl", []string{"openssl", "speed", "-seconds", "60", "rsa2048"}},
}

// Start starts the program, which is killed when the test ends, and returns the process to
// walk. It skips the test if the program is not installed.
func (w Workload) Start(t *testing.T) (pid int) {
	t.Helper()
	testenv.Need(t, testenv.Tool(w.Name))
	cmd := testenv.Command(t, w.Argv[0], w.Argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
		for _, pid := range append([]int{cmd.Process.Pid}, Children(cmd.Process.Pid)...) {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil &&
				strings.HasPrefix(filepath.Base(exe), w.Name) {
				time.Sleep(200 * time.Millisecond) // until it computes
				return pid
			}
		}
	}
	t.Fatalf("%s did not start", w.Name)
	return 0
}

// Children returns the processes that a process's main thread started.
func Children(pid int) []int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	var out []int
	for _, s := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(s); err == nil {
			out = append(out, n)
		}
	}
	return out
}
