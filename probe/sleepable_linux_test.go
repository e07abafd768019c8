package probe

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

var shown uintptr

// show is what the probes below are on: its argument is in the first register of
// Go's convention, and nothing in it grows the stack.
//
//go:noinline
//go:nosplit
func show(p uintptr) { shown = p }

// onPages calls f with 23 pages that hold 0, 1, 2, … and that this process has
// not touched.
func onPages(t *testing.T, f func(page uintptr)) {
	t.Helper()
	size := os.Getpagesize()
	content := make([]byte, probetest.Times*size)
	for i := range probetest.Times {
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
	defer testenv.Unpreempted(t)()
	for i := range probetest.Times {
		f(uintptr(unsafe.Pointer(&mem[i*size])))
		// Whoever touched the page had its neighbours mapped too.
		if err := unix.Madvise(mem, unix.MADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
	}
}

// readUser adds up the u64 at the user's address that load puts into R3 (R6 is the
// context), read by the helper. Only events of this process count.
func readUser(typ ebpf.ProgramType, hits *ebpf.Map, load asm.Instructions, helper asm.BuiltinFunc) asm.Instructions {
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.JNE.Imm(asm.R0, int32(os.Getpid()), "exit"),
	}
	ins = append(ins, load...)
	ins = append(ins,
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 8),
		helper.Call(),
		asm.Mov.Imm(asm.R7, 0),
		asm.JNE.Imm(asm.R0, 0, "count"),
		asm.LoadMem(asm.R7, asm.RFP, -8, asm.DWord),
		asm.StoreImm(asm.RFP, -12, 0, asm.Word).WithSymbol("count"),
	)
	return probetest.OwnIDs(append(ins, probetest.TallyUp(typ, asm.LoadMapPtr(asm.R1, hits.FD()), -12)...))
}

// attachReader loads and attaches the plan's one program.
func attachReader(t *testing.T, plan *Plan, load asm.Instructions, helper asm.BuiltinFunc) *counter {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	spec := plan.ProgramSpec(0)
	spec.License, spec.Instructions = "GPL", readUser(spec.Type, m, load, helper)
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
			plan := mustResolve(t, &c.o, "uprobe:/proc/self/exe:github.com/borescope/borescope/probe.show")
			load := asm.Instructions{asm.LoadMem(asm.R3, asm.R6, goFirstArg(), asm.DWord)}
			n := attachReader(t, plan, load, c.helper)
			onPages(t, show)
			probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times, Sum: c.sum})
		})
	}
}

// TestSleepableTracepoint: the same, of a path that a system call is given. That
// nobody else in this process uses chroot makes the count exact.
func TestSleepableTracepoint(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs, testenv.Feature(feature.SleepableTracepoint), testenv.Arch("amd64"))
	const rdi, path = 112, 16 // of pt_regs, and of the record of a call with one argument
	record := asm.Instructions{asm.LoadMem(asm.R3, asm.R6, path, asm.DWord)}
	// args: struct pt_regs *regs, long id
	raw := asm.Instructions{
		asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord),
		asm.JNE.Imm(asm.R1, unix.SYS_CHROOT, "exit"),
		asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord),
		asm.Add.Imm(asm.R3, rdi),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 8),
		asm.FnProbeReadKernel.Call(),
		asm.LoadMem(asm.R3, asm.RFP, -8, asm.DWord),
	}
	for _, c := range []struct {
		name, target string
		o            Options
		load         asm.Instructions
		helper       asm.BuiltinFunc
		sum          uint64
	}{
		{"blind", "tracepoint:syscalls:sys_enter_chroot", Options{}, record, asm.FnProbeReadUser, 0},
		{"record", "tracepoint:syscalls:sys_enter_chroot sleepable", Options{}, record, asm.FnCopyFromUser, sumTo},
		{"raw", "rawtracepoint:sys_enter sleepable", Options{NoTypes: true}, raw, asm.FnCopyFromUser, sumTo},
		{"typed", "rawtracepoint:sys_enter sleepable", Options{PreferBTF: true}, raw, asm.FnCopyFromUser, sumTo},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := attachReader(t, mustResolve(t, &c.o, c.target), c.load, c.helper)
			onPages(t, func(page uintptr) { unix.RawSyscall(unix.SYS_CHROOT, page, 0, 0) })
			probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times, Sum: c.sum})
		})
	}
	for _, target := range []string{"tracepoint:sched:sched_switch sleepable", "rawtracepoint:sched_switch sleepable"} {
		plan := mustResolve(t, &Options{NoTypes: true}, target)
		n := loadCounter(t, plan, probetest.Counting{Value: -1})
		if l, err := plan.Attach(n.progs, nil); err == nil || !strings.Contains(err.Error(), onlySyscalls) {
			t.Errorf("%s: %v", target, err)
			l.Close()
		}
	}
}
