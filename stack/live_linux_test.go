package stack

import (
	"debug/elf"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

var gdbStops = flag.Int("gdb-stops", 1, "compare this many random `stops` of each program with gdb")

type workload struct {
	name string
	argv []string
}

// jitWorkload has code that no debugger knows how to unwind: frame pointers lead
// over it, and call frame information on from there.
var jitWorkload = workload{"node", []string{"node", "-e", `
function deep(n) { if (n > 0) return deep(n - 1); let m = {}; for (let i = 0; i < 5000; i++) m["k" + i % 100] = JSON.stringify({i}); return Object.keys(m).sort().map(k => m[k].length).reduce((a, b) => a + b); }
for (;;) deep(20);`}}

// workloads are programs without frame pointers, as Debian ships them.
var workloads = []workload{
	{"bash", []string{"bash", "-c", `f() { if (( $1 > 0 )); then f $(( $1 - 1 )); else for ((i=0;i<300;i++)); do x=${x//a/bb}; x=${x:0:50}aa; done; fi; }; while :; do f 25; done`}},
	{"python3", []string{"python3", "-c", `
import json, re
def deep(n): return deep(n-1) if n else [json.loads(json.dumps({"a": list(range(50)), "b": re.sub("a+", "b", "xaay"*20)})), sorted(range(300), key=lambda v: -v)]
while True: deep(20)`}},
	{"perl", []string{"perl", "-e", `sub f { my $n = shift; return $n ? f($n-1) : do { my $s = "abc" x 100; $s =~ s/b+/x/g; my @a = sort map { $_ * 3 % 17 } 1..200; scalar @a } } while (1) { f(10) }`}},
	{"xz", []string{"sh", "-c", "cat /dev/urandom | exec xz -9 -T1 > /dev/null"}},
	{"openssl", []string{"openssl", "speed", "-seconds", "60", "rsa2048"}},
}

// startWorkload starts a program and returns the process to look at.
func startWorkload(t *testing.T, name string, argv []string) int {
	t.Helper()
	testenv.Need(t, testenv.Tool(name))
	cmd := testenv.Command(t, argv[0], argv[1:]...)
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
		for _, pid := range append(children(cmd.Process.Pid), cmd.Process.Pid) {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && strings.HasPrefix(filepath.Base(exe), name) {
				time.Sleep(200 * time.Millisecond) // let it get to work
				return pid
			}
		}
	}
	t.Fatalf("%s did not start", name)
	return 0
}

func children(pid int) []int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	var out []int
	for _, s := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(s); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// stopped stops a process, calls f with its registers, and lets it go on.
func stopped(t *testing.T, pid int, f func(*Regs)) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	testenv.Need(t, testenv.Got("ptrace of a child", syscall.PtraceAttach(pid)))
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WALL, nil); err != nil {
		t.Fatal(err)
	}
	regs, err := ptraceRegs(pid)
	if derr := syscall.PtraceDetach(pid); derr != nil {
		t.Fatal(derr)
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	if err != nil {
		t.Fatal(err)
	}
	f(regs)
}

func ptraceRegs(pid int) (*Regs, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("registers of %s", runtime.GOARCH)
	}
	var p syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(pid, &p); err != nil {
		return nil, err
	}
	return amd64PtraceRegs(&p), nil
}

// gdbBacktrace asks gdb for the program counters of the stopped process.
func gdbBacktrace(t *testing.T, args ...string) []uint64 {
	t.Helper()
	script := `
import gdb
f = gdb.newest_frame()
while f is not None:
    if f.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME): # those have no frame of their own
        print("PC 0x%x %s" % (f.pc(), f.name()))
    f = f.older()
`
	file := filepath.Join(t.TempDir(), "bt.py")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set backtrace past-main on", "-ex", "set backtrace past-entry on"}, args...)
	out, err := testenv.Command(t, "gdb", append(args, "-x", file)...).CombinedOutput()
	if err != nil {
		t.Fatalf("gdb: %v: %s", err, out)
	}
	var chain []uint64
	for line := range strings.Lines(string(out)) {
		var pc uint64
		if n, _ := fmt.Sscanf(line, "PC 0x%x", &pc); n == 1 {
			chain = append(chain, pc)
		}
	}
	if len(chain) == 0 {
		t.Fatalf("gdb said nothing useful: %s", out)
	}
	return chain
}

// TestCFIWalkerMatchesGDB stops programs at random moments and compares the
// walk with gdb's, frame by frame.
func TestCFIWalkerMatchesGDB(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Long, testenv.Arch("amd64"), testenv.Tool("gdb"))
	var cache CFICache
	for _, w := range workloads {
		t.Run(w.name, func(t *testing.T) {
			pid := startWorkload(t, w.name, w.argv)
			frames, same := 0, 0
			for range *gdbStops {
				time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
				stopped(t, pid, func(r *Regs) {
					mods, err := cache.Modules(pid)
					if err != nil {
						t.Log(err)
					}
					walker := CFIWalker{Modules: mods}
					dst := make([]Frame, 4096)
					n, end := walker.Walk(dst, r, ProcessMemory(pid))
					got, want := pcs(dst[:n]), gdbBacktrace(t, "-p", strconv.Itoa(pid))
					frames += n
					// OpenSSL's assembly has functions without call frame information that
					// push nothing: the frame pointer is their caller's, whose caller it
					// leads to. GDB reads the code.
					if w.name == "openssl" && n > 1 && dst[1].How == HowFP && len(want) == n+1 {
						want = slices.Delete(want, 1, 2)
					}
					if !slices.Equal(got, want) {
						t.Errorf("%v after %d frames; gdb has %d\n got %#x\nwant %#x", end, n, len(want), got, want)
						return
					}
					if end != EndBottom {
						t.Errorf("%d frames as gdb has, but the end is %v", n, end)
					}
					same++
				})
			}
			t.Logf("%d of %d stops identical, %d frames", same, *gdbStops, frames)
		})
	}
}

func TestCFICacheSharesTables(t *testing.T) {
	testenv.Need(t, testenv.Arch("amd64", "arm64"))
	var c CFICache
	a, _ := c.Modules(os.Getpid())
	b, _ := c.Modules(os.Getpid())
	if len(a.All()) == 0 {
		t.Fatal("no modules of this process")
	}
	for i, m := range a.All() {
		if m.CFI != nil && m.Name != "[vdso]" && b.All()[i].CFI != m.CFI {
			t.Errorf("%s: compiled twice", m.Name)
		}
		// That of a 6.12 arm64 guest had none.
		if m.Name == "[vdso]" && m.CFI == nil && runtime.GOARCH == "amd64" {
			t.Error("no call frame information of the vdso")
		}
	}
	if a.All()[0].CFI != nil && a.All()[0].CFI.machine == elf.EM_NONE {
		t.Error("table without a machine")
	}
}

// startCompiled starts a program that has all its code when it starts.
func startCompiled(t *testing.T, name, source string) int {
	t.Helper()
	testenv.Need(t, testenv.Tool("gcc"))
	dir := t.TempDir()
	cmd := testenv.Command(t, "gcc", "-O2", "-static", "-fno-pie", "-no-pie", "-x", "c", "-o", filepath.Join(dir, name), "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		testenv.Need(t, testenv.Got("gcc -static", fmt.Errorf("%w: %s", err, out)))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return startWorkload(t, name, []string{name})
}

// garbageSource runs a function whose return address is none, as rules that are
// wrong find one: it was taken for an interpreted frame.
const garbageSource = `
volatile int n;
void spin(void) { for (;;) n++; }
int main(void) { __asm__("mov $0xf123456789abcde0,%rax\n push %rax\n jmp spin"); return 0; }
`

// trampolineSource calls through code like CPython's for -X perf.
const trampolineSource = `
__asm__(".text\n.type trampoline,@function\ntrampoline: sub $8,%rsp\n mov $0x1234,%ebp\n call *%rdi\n add $8,%rsp\n ret\n");
void trampoline(void (*f)(void));
volatile int n;
__attribute__((noinline)) void spin(void) { for (;;) n++; }
__attribute__((noinline)) void through(void) { trampoline(spin); n++; }
int main(void) { trampoline(through); return n; }
`
