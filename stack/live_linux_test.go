package stack

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
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
	testenv.Need(t, testenv.Got("ptrace of a child", syscall.PtraceAttach(pid), "operation not permitted"))
	var ws syscall.WaitStatus
	_, err := syscall.Wait4(pid, &ws, syscall.WALL, nil)
	for errors.Is(err, syscall.EINTR) { // the runtime's signals interrupt it
		_, err = syscall.Wait4(pid, &ws, syscall.WALL, nil)
	}
	if err != nil {
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

// TestCFIWalkerMatchesGDB stops programs at random moments and compares the
// walk with gdb's, frame by frame.
func TestCFIWalkerMatchesGDB(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Long, testenv.Arch("amd64"), testenv.Tool("gdb"))
	for _, w := range stacktest.Workloads {
		t.Run(w.Name, func(t *testing.T) { matchGDB(t, w.Name, w.Start(t)) })
	}
	t.Run("compat", func(t *testing.T) { matchGDB(t, "chain", stacktest.StartChain(t)) })
	t.Run("compatsignals", func(t *testing.T) {
		matchGDB(t, "chain", stacktest.StartChain(t, "-DSIGNAL", "-DFLAGS=SA_SIGINFO"))
	})
}

func matchGDB(t *testing.T, name string, pid int) {
	t.Helper()
	var cache CFICache
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
			got, want := pcs(dst[:n]), stacktest.GDB(t, "-p", strconv.Itoa(pid))
			frames += n
			// OpenSSL's assembly has functions without call frame information that
			// push nothing: the frame pointer is their caller's, whose caller it
			// leads to. GDB reads the code.
			if name == "openssl" && n > 1 && dst[1].Source == SourceFP && len(want) == n+1 {
				want = slices.Delete(want, 1, 2)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v after %d frames; gdb has %d\n got %#x\nwant %#x", end, n, len(want), got, want)
				return
			}
			if end != StopBottom {
				t.Errorf("%d frames as gdb has, but the end is %v", n, end)
			}
			same++
		})
	}
	t.Logf("%d of %d stops identical, %d frames", same, *gdbStops, frames)
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
	if a.All()[0].CFI != nil && a.All()[0].CFI.rules.Machine == elf.EM_NONE {
		t.Error("table without a machine")
	}
}
