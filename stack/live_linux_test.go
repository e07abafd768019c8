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
	"github.com/borescope/borescope/stack/internal/stacktest"
)

var gdbStops = flag.Int("gdb-stops", 1, "compare this many random `stops` of each program with gdb")

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
	for _, w := range stacktest.Workloads {
		t.Run(w.Name, func(t *testing.T) {
			pid := w.Start(t)
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
					if w.Name == "openssl" && n > 1 && dst[1].How == HowFP && len(want) == n+1 {
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
	return stacktest.Workload{Name: name, Argv: []string{name}}.Start(t)
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
