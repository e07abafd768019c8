package mapx

import (
	"encoding/binary"
	"flag"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/internal/maptest"
)

var flooding = flag.Int("flood", 0, "events of each flood (0: 10 million in one of each kind natively, 262144 elsewhere)")

// floodOf is how many events a flood produces, on two CPUs. main is the one of
// its kind in which 10 million are accounted for, where they take seconds.
func floodOf(main bool) int {
	switch {
	case *flooding > 0:
		return *flooding
	case main && !testing.Short() && !testenv.InGuest():
		return 10_000_000
	}
	return 1 << 18
}

func TestMain(m *testing.M) { testenv.Main(m) }

// newMapSince is newMap for a type that older kernels than since don't have.
func newMapSince(t testing.TB, since string, spec *ebpf.MapSpec) *ebpf.Map {
	t.Helper()
	maptest.Need(t)
	m, err := ebpf.NewMap(spec)
	if err != nil {
		testenv.SkipUnsupported(t, &UnsupportedError{Feature: spec.Type.String() + " map", Since: since, Err: err})
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// emitter is a program that emits records of 32 bytes: the CPU's own sequence
// number first, then the CPU.
type emitter struct {
	prog *ebpf.Program
	out  *ebpf.Map // ring or perf event array
	// counts is a per-CPU array: 0 runs, 1 failures.
	counts *ebpf.Map
}

func newCounts(t testing.TB, n uint32) *ebpf.Map {
	return maptest.New(t, &ebpf.MapSpec{
		Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: n, Name: "counts",
	})
}

// bump adds one to a slot of a per-CPU array and leaves the old value in r7.
func bump(counts *ebpf.Map, slot int32, label string) asm.Instructions {
	return asm.Instructions{
		asm.StoreImm(asm.RFP, -4, int64(slot), asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, counts.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, label),
		asm.LoadMem(asm.R7, asm.R0, 0, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
	}
}

func newRingEmitter(t testing.TB, size uint32, flags int64) *emitter {
	out := maptest.New(t, &ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: size, Name: "ring"})
	counts := newCounts(t, 2)
	insns := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	insns = append(insns, bump(counts, 0, "out")...)
	insns = append(insns,
		asm.StoreMem(asm.RFP, -40, asm.R7, asm.DWord),
		asm.FnGetSmpProcessorId.Call(),
		asm.StoreMem(asm.RFP, -32, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R1, 0x1122),
		asm.StoreMem(asm.RFP, -24, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 0x3344),
		asm.StoreMem(asm.RFP, -16, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, out.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -40),
		asm.Mov.Imm(asm.R3, 32),
		asm.LoadImm(asm.R4, flags, asm.DWord),
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
	)
	insns = append(insns, bump(counts, 1, "out")...)
	insns = append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return())
	return &emitter{prog: newProg(t, insns), out: out, counts: counts}
}

// newProg loads a socket filter: the one program type that every kernel runs
// any number of times in one test-run call.
func newProg(t testing.TB, insns asm.Instructions) *ebpf.Program {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SocketFilter, Instructions: insns, License: "Dual MIT/GPL",
	})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { prog.Close() })
	return prog
}

// run runs prog n times. Where a signal interrupts the kernel's loop, it is begun again: none may.
func run(t testing.TB, prog *ebpf.Program, n int) {
	t.Helper()
	defer testenv.Unpreempted(t)()
	for n > 0 {
		repeat := min(n, 1<<16)
		_, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: uint32(repeat)})
		if err != nil {
			t.Error(err)
			return
		}
		n -= repeat
	}
}

// runOnAll runs prog n times on each online CPU at once, threads of them.
func runOnAll(t testing.TB, prog *ebpf.Program, threads, n int) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range threads {
		wg.Go(func() {
			runtime.LockOSThread() // and leave it to die with the thread's mask
			pin(t, i%runtime.NumCPU())
			run(t, prog, n)
		})
	}
	return &wg
}

func pin(t testing.TB, cpu int) {
	var mask [16]uint64
	mask[cpu/64] = 1 << (cpu % 64)
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask),
		uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		t.Error(errno)
	}
}

// total is the sum of one slot over the CPUs.
func (e *emitter) total(t testing.TB, slot uint32) uint64 {
	t.Helper()
	var values []uint64
	if err := e.counts.Lookup(slot, &values); err != nil {
		t.Fatal(err)
	}
	sum := uint64(0)
	for _, v := range values {
		sum += v
	}
	return sum
}

func u64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
