package probe

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
)

var shown uintptr

// show is what the probes below are on: its argument is in the first register of
// Go's convention, and nothing in it grows the stack.
//
//go:noinline
//go:nosplit
func show(p uintptr) { shown = p }

// showPages calls show with 23 pages that hold 0, 1, 2, … and that this process
// has not touched.
func showPages(t *testing.T) {
	t.Helper()
	size := os.Getpagesize()
	content := make([]byte, times*size)
	for i := range times {
		binary.NativeEndian.PutUint64(content[i*size:], uint64(i))
	}
	fd, err := unix.MemfdCreate("pages", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, content); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, len(content), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	// A signal for preemption may have the probed instruction run twice.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var urgent, before unix.Sigset_t
	urgent.Val[0] = 1 << (unix.SIGURG - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &urgent, &before); err != nil {
		t.Fatal(err)
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	for i := range times {
		show(uintptr(unsafe.Pointer(&mem[i*size])))
	}
}

// readUser adds up the u64 that the first argument points to, by the helper.
func readUser(hits *ebpf.Map, helper asm.BuiltinFunc) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R3, asm.R1, retOffset(), asm.DWord), // Go's first argument
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 8),
		helper.Call(),
		asm.Mov.Imm(asm.R6, 0),
		asm.JNE.Imm(asm.R0, 0, "count"),
		asm.LoadMem(asm.R6, asm.RFP, -8, asm.DWord),
		asm.StoreImm(asm.RFP, -12, 0, asm.Word).WithSymbol("count"),
		asm.LoadMapPtr(asm.R1, hits.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -12),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Add.Imm(asm.R0, 8),
		asm.StoreXAdd(asm.R0, asm.R6, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	}
}

// attachReader attaches one program that reads what show is given.
func attachReader(t *testing.T, o *Options, helper asm.BuiltinFunc) *counter {
	t.Helper()
	plan := mustResolve(t, o, "uprobe:/proc/self/exe:github.com/borescope/borescope/probe.show")
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	spec := plan.ProgramSpec(0)
	spec.License, spec.Instructions = "GPL", readUser(m, helper)
	prog, err := ebpf.NewProgram(spec)
	if err != nil {
		t.Fatalf("%+v\n%s", err, plan)
	}
	t.Cleanup(func() { prog.Close() })
	l, err := plan.Attach(map[string]*ebpf.Program{spec.Name: prog}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, plan)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return &counter{m: m}
}

// TestSleepableUprobe: a program that may sleep reads memory that is not there
// yet; one that may not, doesn't.
func TestSleepableUprobe(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Feature(feature.SleepableUprobe))
	for _, c := range []struct {
		name   string
		o      Options
		helper asm.BuiltinFunc
		sum    uint64
	}{
		{"blind", Options{}, asm.FnProbeReadUser, 0},
		{"single", Options{Sleepable: true, NoMulti: true}, asm.FnCopyFromUser, sumTo},
		{"best", Options{Sleepable: true}, asm.FnCopyFromUser, sumTo},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := attachReader(t, &c.o, c.helper)
			showPages(t)
			expectTally(t, n.read(t, 0), tally{times, c.sum})
		})
	}
}
