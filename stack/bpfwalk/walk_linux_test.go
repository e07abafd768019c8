package bpfwalk

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

var bpfSeconds = flag.Float64("bpf-seconds", 0.3, "sample each program for so many `seconds` in the BPF walker's test")

// What the walker's zero value needs of the kernel.
var (
	bpfLoop    = testenv.Feature(feature.BPFLoop)
	taskPtRegs = testenv.Feature(feature.TaskPtRegs)
)

// The record that the test program sends: the state, the registers, and the
// stack from 128 bytes below the stack pointer.
const (
	snapChunk  = 1024
	snapChunks = 28
)

func snapLayout(w *Walker) (regs, count, mem, size int16) {
	regs = int16(w.StateSize())
	count = regs + rules.AMD64Regs
	mem = count + 8
	return regs, count, mem, mem + snapChunk*snapChunks
}

func snapSize(w *Walker) int {
	_, _, _, size := snapLayout(w)
	return int(size)
}

// walkedState begins the test programs: R6 is the element of a map, with the state of a walk.
func walkedState(scratch string) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, -4, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, 0).WithReference(scratch),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Call.Label(WalkFunc),
	}
}

// snapProgram walks and sends what it walked over, so that the walk can be
// done again.
func snapProgram(w *Walker) asm.Instructions {
	regs, count, mem, size := snapLayout(w)
	ins := append(walkedState("scratch"),
		asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.FnTaskPtRegs.Call(),
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Add.Imm(asm.R1, int32(regs)),
		asm.Mov.Imm(asm.R2, rules.AMD64Regs),
		asm.FnProbeReadKernel.Call(),
		asm.LoadMem(asm.R8, asm.R6, regs+amd64RegsSP, asm.DWord),
		asm.Add.Imm(asm.R8, -redZone),
		asm.Mov.Imm(asm.R9, 0),
	)
	for i := range int32(snapChunks) {
		ins = append(ins,
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Add.Imm(asm.R1, int32(mem)+i*snapChunk),
			asm.Mov.Imm(asm.R2, snapChunk),
			asm.Mov.Reg(asm.R3, asm.R8),
			asm.Add.Imm(asm.R3, i*snapChunk),
			asm.FnProbeReadUser.Call(),
			asm.JNE.Imm(asm.R0, 0, "send"),
			asm.Add.Imm(asm.R9, 1),
		)
	}
	return append(
		append(ins,
			asm.StoreMem(asm.R6, count, asm.R9, asm.DWord).WithSymbol("send"),
			asm.LoadMapPtr(asm.R1, 0).WithReference("ring"),
			asm.Mov.Reg(asm.R2, asm.R6),
			asm.Mov.Imm(asm.R3, int32(size)),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnRingbufOutput.Call(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
			asm.Return(),
		), w.Instructions()...)
}

// walkOnlyProgram does nothing but walk, to see what that costs.
func walkOnlyProgram(w *Walker) asm.Instructions {
	ins := append(walkedState("scratch"),
		asm.LoadMapPtr(asm.R1, 0).WithReference("frames"),
		asm.StoreMem(asm.RFP, -16, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(asm.RFP, -4, asm.R2, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R1, asm.RFP, -16, asm.DWord),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
	return append(ins, w.Instructions()...)
}

// addBTF gives every function the prototype that bpf_loop asks for.
func addBTF(ins asm.Instructions, main string) asm.Instructions {
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	ptr := &btf.Pointer{Target: &btf.Void{}}
	fn := func(name string, params ...btf.FuncParam) *btf.Func {
		return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: long, Params: params}}
	}
	ins[0] = btf.WithFuncMetadata(ins[0].WithSymbol(main), fn(main, btf.FuncParam{Name: "ctx", Type: ptr}))
	for i := range ins {
		switch ins[i].Symbol() {
		case WalkFunc:
			ins[i] = btf.WithFuncMetadata(ins[i], fn(WalkFunc, btf.FuncParam{Name: "state", Type: ptr}))
		case StepFunc:
			ins[i] = btf.WithFuncMetadata(ins[i], fn(StepFunc,
				btf.FuncParam{Name: "index", Type: &btf.Int{Name: "unsigned long", Size: 8}}, btf.FuncParam{Name: "context", Type: ptr}))
		}
	}
	return ins
}

// bpfBench is a loaded test program and its maps.
type bpfBench struct {
	prog   *ebpf.Program
	maps   map[string]*ebpf.Map
	tables *Tables
}

func loadBPF(t testing.TB, scratch int, ins asm.Instructions, limits *Limits) *bpfBench {
	t.Helper()
	return loadBPFAs(t, ebpf.PerfEvent, scratch, ins, limits)
}

// loadBPFAs is loadBPF for a type of program.
func loadBPFAs(t testing.TB, typ ebpf.ProgramType, scratch int, ins asm.Instructions,
	limits *Limits,
) *bpfBench {
	t.Helper()
	_ = rlimit.RemoveMemlock()
	specs := map[string]*ebpf.MapSpec{
		"scratch": {Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: uint32(scratch), MaxEntries: 1},
		"ring":    {Type: ebpf.RingBuf, MaxEntries: 16 << 20},
		"shared":  {Type: ebpf.Array, KeySize: 4, ValueSize: uint32(scratch), MaxEntries: 1},
		"frames":  {Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
	}
	for _, s := range Maps(limits) {
		specs[s.Name] = &ebpf.MapSpec{Name: s.Name, Type: ebpf.MapType(s.Type), KeySize: s.KeySize, ValueSize: s.ValueSize, MaxEntries: s.MaxEntries}
	}
	b := &bpfBench{maps: make(map[string]*ebpf.Map)}
	fill := make(map[string]Map)
	for name, spec := range specs {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			t.Fatalf("map %s: %v", name, err)
		}
		t.Cleanup(func() { m.Close() })
		b.maps[name] = m
		fill[name] = m
	}
	var err error
	if b.tables, err = NewTables(fill, limits); err != nil {
		t.Fatal(err)
	}
	ins = addBTF(ins, "snap")
	for i := range ins {
		if ref := ins[i].Reference(); ref != "" && b.maps[ref] != nil {
			if err := ins[i].AssociateMap(b.maps[ref]); err != nil {
				t.Fatal(err)
			}
		}
	}
	start := time.Now()
	b.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "snap", Type: typ, License: "GPL", Instructions: ins})
	var ve *ebpf.VerifierError
	if errors.As(err, &ve) {
		t.Fatalf("verifier: %+v", tail(ve.Log, 60))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.prog.Close() })
	took := time.Since(start)
	info, err := b.prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	verified, _ := info.VerifiedInstructions()
	t.Logf("loaded in %v, %d instructions, %d verified", took.Round(time.Millisecond), len(ins), verified)
	return b
}

func tail(s []string, n int) []string { return s[max(0, len(s)-n):] }

// sample runs the program on a process's CPU clock until the event is closed. It
// attaches by ioctl, which every kernel has.
func (b *bpfBench) sample(t testing.TB, pid, hz int) *os.File {
	t.Helper()
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(hz), Bits: unix.PerfBitFreq,
	}
	fd, err := unix.PerfEventOpen(&attr, pid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		t.Fatalf("perf_event_open: %v", err)
	}
	event := os.NewFile(uintptr(fd), "perf event")
	t.Cleanup(func() { _ = event.Close() })
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, b.prog.FD()); err != nil {
		t.Fatalf("attach: %v", err)
	}
	return event
}

// TestWalkerMatchesGoWalker walks each sample twice: in BPF, and in Go over
// the registers and the stack that the same program run copied.
func TestWalkerMatchesGoWalker(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Ringbuf, bpfLoop, taskPtRegs, testenv.Arch("amd64")) // whose registers the test program copies
	var w Walker
	b := loadBPF(t, snapSize(&w), snapProgram(&w), nil)
	var cache stack.CFICache
	for i, load := range append(stacktest.Workloads, stacktest.JIT) {
		t.Run(load.Name, func(t *testing.T) {
			if i > 0 {
				testenv.Need(t, testenv.Long)
			}
			b.compare(t, &w, &cache, load.Start(t))
		})
	}
	t.Run("trampoline", func(t *testing.T) {
		if samples, whole := b.compare(t, &w, &cache, stacktest.StartCompiled(t, "trampoline", stacktest.Trampoline)); 2*whole < samples {
			t.Errorf("%d of %d stacks are whole", whole, samples)
		}
	})
	// The program found no caller of the loader's code, which counts from rbx, nor of vfork,
	// whose return address is in rdi.
	for name, start := range map[string]func(t *testing.T) int{
		"lazy":  stacktest.StartLazy,
		"vfork": func(t *testing.T) int { return stacktest.StartCompiled(t, "vfork", stacktest.Vfork) },
	} {
		t.Run(name, func(t *testing.T) {
			// A cache of its own: files of the other may have left their inodes to these.
			samples, whole := b.compare(t, &w, new(stack.CFICache), start(t))
			if 1000*whole < 995*samples {
				t.Errorf("%d of %d stacks are whole", whole, samples)
			}
		})
	}
	t.Run("garbage", func(t *testing.T) {
		b.compare(t, &w, &cache, stacktest.StartCompiled(t, "garbage", stacktest.Garbage))
	})
}

// compare returns how many samples there were, and how many whole stacks.
func (b *bpfBench) compare(t *testing.T, w *Walker, cache *stack.CFICache, pid int) (samples, whole int) {
	mods, err := cache.Modules(pid)
	if err != nil {
		t.Log(err)
	}
	start := time.Now()
	if err := b.tables.SetProcess(pid, mods); err != nil {
		t.Fatal(err)
	}
	t.Logf("tables filled in %v, %d rows", time.Since(start).Round(time.Microsecond), b.tables.Rows())
	t.Cleanup(func() {
		if err := b.tables.RemoveProcess(pid); err != nil {
			t.Error(err)
		}
	})
	rd, err := ringbuf.NewReader(b.maps["ring"])
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	l := b.sample(t, pid, 999)
	regsOff, countOff, memOff, _ := snapLayout(w)
	goWalker := stack.CFIWalker{Modules: mods}
	var dst [stack.MaxFrames]stack.Frame
	same, frames, cut := 0, 0, 0
	deadline := time.Now().Add(time.Duration(*bpfSeconds * float64(time.Second)))
	rd.SetDeadline(deadline)
	for {
		now := time.Now()
		switch {
		case l == nil || !now.After(deadline):
		case samples >= 20 || now.After(deadline.Add(time.Minute)):
			l.Close() // then what is left in the ring
			l = nil
		default: // a loaded machine gives no samples for long
			rd.SetDeadline(now.Add(10 * time.Millisecond))
		}
		rec, err := rd.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if l == nil {
				break
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		raw := rec.RawSample
		got := w.Decode(nil, raw)
		samples++
		frames += len(got.Frames)
		if got.Stopped == stack.StopBottom {
			whole++
		}
		r := amd64Entry(raw[regsOff:])
		n := binary.NativeEndian.Uint64(raw[countOff:])
		mem := codeMemory{stack.MemoryRange{Addr: r.SP() - redZone, Data: raw[memOff:][:n*snapChunk]}, mods, stack.ProcessMemory(pid)}
		m, end := goWalker.Walk(dst[:], r, mem)
		if !slices.Equal(got.Frames, dst[:m]) { // the program sees code only where it is in memory
			m, end = goWalker.Walk(dst[:], r, mem.stack)
		}
		want := dst[:m]
		if end == stack.StopBadMemory && m <= len(got.Frames) { // the copy ends here
			cut++
			got.Frames = got.Frames[:m]
			got.Stopped = end
		}
		if !slices.Equal(got.Frames, want) || got.Stopped != end || got.Unknown {
			t.Errorf("BPF %v %v\n Go %v %v", got.Frames, got.Stopped, want, end)
			if samples-same > 5 {
				t.FailNow()
			}
			continue
		}
		same++
	}
	if samples < 20 {
		t.Errorf("only %d samples", samples)
	}
	t.Logf("%d samples, %d the same (%d cut by the copy's end), %.2f%% whole, %.1f frames each",
		samples, same, cut, 100*float64(whole)/float64(samples), float64(frames)/float64(samples))
	return samples, whole
}

// codeMemory is a copied stack, and the process's code as it is.
type codeMemory struct {
	stack stack.MemoryRange
	mods  *stack.Modules
	code  stack.Memory
}

func (m codeMemory) ReadMemory(dst []byte, addr uint64) error {
	if m.mods.Find(addr) != nil {
		return m.code.ReadMemory(dst, addr)
	}
	return m.stack.ReadMemory(dst, addr)
}

// amd64Entry reads struct pt_regs.
func amd64Entry(b []byte) *stack.Regs {
	r := &stack.Regs{Machine: elf.EM_X86_64}
	for i, n := range []int{
		stack.AMD64R15, stack.AMD64R14, stack.AMD64R13, stack.AMD64R12, stack.AMD64RBP, stack.AMD64RBX, stack.AMD64R11, stack.AMD64R10, stack.AMD64R9, stack.AMD64R8, stack.AMD64RAX, stack.AMD64RCX, stack.AMD64RDX,
		stack.AMD64RSI, stack.AMD64RDI, -1, stack.AMD64RIP, -1, -1, stack.AMD64RSP,
	} {
		r.Set(n, binary.NativeEndian.Uint64(b[8*i:]))
	}
	return r
}

// TestWalkerCost reports what a frame costs, by the kernel's own statistics.
func TestWalkerCost(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, bpfLoop, taskPtRegs)
	if *bpfSeconds < 1 {
		return // a measurement: run it with -bpf-seconds=5
	}
	w := Walker{MaxFrames: 512}
	b := loadBPF(t, w.StateSize(), walkOnlyProgram(&w), nil)
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Close()
	var cache stack.CFICache
	for _, load := range stacktest.Workloads {
		t.Run(load.Name, func(t *testing.T) {
			pid := load.Start(t)
			mods, _ := cache.Modules(pid)
			if err := b.tables.SetProcess(pid, mods); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.tables.RemoveProcess(pid) }()
			frames0, runs0, ns0 := b.totals(t)
			l := b.sample(t, pid, 999)
			time.Sleep(time.Duration(*bpfSeconds * float64(time.Second)))
			l.Close()
			frames, runs, ns := b.totals(t)
			frames, runs, ns = frames-frames0, runs-runs0, ns-ns0
			if runs == 0 || frames < runs {
				t.Fatalf("%d frames in %d runs", frames, runs)
			}
			t.Logf("%d runs, %.1f frames, %.2f µs a stack, %.0f ns a frame", runs, float64(frames)/float64(runs), float64(ns)/float64(runs)/1e3, float64(ns)/float64(frames))
		})
	}
}

func (b *bpfBench) totals(t *testing.T) (frames, runs, ns uint64) {
	t.Helper()
	if err := b.maps["frames"].Lookup(uint32(0), &frames); err != nil {
		t.Fatal(err)
	}
	s, err := b.prog.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return frames, s.RunCount, uint64(s.Runtime)
}

// TestWalkerUnknownProcess walks a process that was not added by frame
// pointers and says so.
func TestWalkerUnknownProcess(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Ringbuf, bpfLoop, taskPtRegs, testenv.Arch("amd64"))
	var w Walker
	b := loadBPF(t, snapSize(&w), snapProgram(&w), &Limits{Rows: 1})
	rd, err := ringbuf.NewReader(b.maps["ring"])
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.sample(t, 0, 999) // of this thread
	deadline := time.Now().Add(5 * time.Second)
	rd.SetDeadline(deadline)
	for time.Now().Before(deadline) {
		spinHere()
		rd.SetDeadline(time.Now())
		rec, err := rd.Read()
		if err != nil {
			continue
		}
		s := w.Decode(nil, rec.RawSample)
		if !s.Unknown {
			t.Fatal("the process is known")
		}
		for _, f := range s.Frames[1:] {
			if f.Source != stack.SourceFP {
				t.Fatalf("frame found by %v", f.Source)
			}
			if fn := runtime.FuncForPC(uintptr(f.LookupPC())); fn != nil && fn.Name() == "testing.tRunner" {
				return // Go keeps frame pointers
			}
		}
	}
	t.Error("no sample reached testing.tRunner")
}

// spinHere computes for some milliseconds, without a look at the clock: the
// vDSO has no frame pointers.
//
//go:noinline
func spinHere() {
	for i := range uint64(3_000_000) {
		spinSum += i * i
	}
}

var spinSum uint64

// TestWalkerPlainLoop loads the form for kernels without bpf_loop.
func TestWalkerPlainLoop(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, bpfLoop, taskPtRegs)
	w := Walker{PlainLoop: true}
	loadBPF(t, w.StateSize(), walkOnlyProgram(&w), &Limits{Rows: 1})
}

// TestWalkerHints counts the searches by what they leave behind: a program walks the same stack
// twice, and finds all rows of the second walk where it found them in the first.
//
// Every frame was searched for in up to 16,384 rows, by 14 rounds that depend on each other,
// which was more than half of what a walk took.
func TestWalkerHints(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	arm := runtime.GOARCH == "arm64"
	s := newSnapshots(t, plainTable(t, arm), readTable(t, oddRules(arm)))
	s.fill()
	regs := s.random(s.codes[len(s.codes)-1])
	first := s.bpf(t, regs)
	m := s.b.maps[nameHints]
	places, after := make([]uint16, hints), make([]uint16, hints)
	if err := m.Lookup(uint32(0), places); err != nil {
		t.Fatal(err)
	}
	if slices.Max(places) == 0 {
		t.Fatalf("the walk of %d frames left no hints", len(first.Frames))
	}
	// A search writes a whole hint, and the program looks at 14 bits of one: the top bit stays
	// unless there is a search.
	for i := range places {
		places[i] |= 1 << 15
	}
	if err := m.Put(uint32(0), places); err != nil {
		t.Fatal(err)
	}
	if second := s.bpf(t, regs); !slices.Equal(first.Frames, second.Frames) || first.Stopped != second.Stopped {
		t.Errorf("first %v, then %v", first, second)
	}
	if err := m.Lookup(uint32(0), after); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(places, after) {
		t.Error("the second walk searched again")
	}
}
