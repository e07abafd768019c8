package script

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/probe/ir/interp"
	"github.com/borescope/borescope/probe/script/internal/lower"
	"github.com/borescope/borescope/stack"
)

// event is what a program saw when it ran: its number in the plan, and its context.
type event struct {
	Program, ThreadID, Time, Task uint64
	Context                       [contextSize]byte
}

const (
	contextSize = 280 // the registers of a user program on arm64 have 272
	eventSize   = 32 + contextSize
)

// instruction returns the address of the instruction, if the context is the registers.
func (e *event) instruction() uint64 {
	at := 16 * 8 // rip
	if runtime.GOARCH == "arm64" {
		at = 32 * 8
	}
	return binary.LittleEndian.Uint64(e.Context[at:])
}

// recorder returns a program that emits an event for each time that a process runs it.
func recorder(i, pid int, events *ebpf.Map, typ ebpf.ProgramType) (*ebpf.Program, error) {
	at := func(off int16) int16 { return off - eventSize }
	size := int32(contextSize)
	if typ == ebpf.Kprobe && runtime.GOARCH == "amd64" {
		size = 168 // struct pt_regs, behind which nothing is mapped
	}
	insns := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R0, 0)}
	for off := int16(0); off < eventSize; off += 8 {
		insns = append(insns, asm.StoreMem(asm.RFP, at(off), asm.R0, asm.DWord))
	}
	insns = append(insns,
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
		asm.JNE.Imm(asm.R0, int32(pid), "out"),
		asm.Mov.Imm(asm.R1, int32(i)),
		asm.StoreMem(asm.RFP, at(0), asm.R1, asm.DWord),
		asm.LSh.Imm(asm.R7, 32),
		asm.RSh.Imm(asm.R7, 32),
		asm.StoreMem(asm.RFP, at(8), asm.R7, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, at(16), asm.R0, asm.DWord),
		asm.FnGetCurrentTask.Call(),
		asm.StoreMem(asm.RFP, at(24), asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, int32(at(32))),
		asm.Mov.Imm(asm.R2, size),
		asm.Mov.Reg(asm.R3, asm.R6),
		asm.FnProbeReadKernel.Call(),
		asm.LoadMapPtr(asm.R1, events.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -eventSize),
		asm.Mov.Imm(asm.R3, eventSize),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "contexts", Type: typ, License: "GPL", Instructions: insns,
	})
}

// Interpret runs a program while a process works, with programs beside it that record each context.
// The interpreter must then emit the same records, and leave the same maps. The process works on
// one CPU.
func (p *Program) Interpret(t *testing.T, pid int, comm string, work func() error) {
	t.Helper()
	s := p.newRun(nil)
	var records [][]byte
	var events []event
	var kernel map[string]map[string]string
	s.seen = func(b []byte) { records = append(records, bytes.Clone(b)) }
	s.last = func() { kernel = s.kernelMaps(t) }
	ctx, cancel := context.WithCancel(t.Context())
	s.Attached = func() (err error) {
		defer cancel()
		events, err = s.contexts(pid, work)
		return err
	}
	if err := s.run(ctx); err != nil {
		t.Fatal(err)
	}

	now := event{ThreadID: uint64(os.Getpid())}
	owner := uint64(os.Getpid())
	m := &interp.Machine{Comm: comm, User: stack.ProcessMemory(pid), Kernel: newKernelMemory(t)}
	m.Builtin = func(name string) uint64 {
		switch name {
		case "pid":
			return owner
		case "tid":
			return now.ThreadID
		case "nsecs", "nsecs_boot":
			return now.Time
		case "curtask":
			return now.Task
		}
		return 0
	}
	m.Stack = func(bool) []uint64 { return []uint64{now.instruction()} }
	run := func(i int) {
		in, err := interp.New(p.low.IR, p.plan, i)
		if err == nil {
			m.Context = now.Context[:]
			err = in.Run(m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range p.plan.Programs {
		if lower.Begins(p.plan.Programs[i].Sites[0].Target) {
			run(i)
		}
	}
	owner, m.Disabled = uint64(pid), m.ExitRequested
	for _, now = range events {
		run(int(now.Program))
	}
	owner, now, m.Disabled = uint64(os.Getpid()), event{}, false
	for i := range p.plan.Programs {
		if lower.Ends(p.plan.Programs[i].Sites[0].Target) {
			run(i)
		}
	}
	if len(events) == 0 {
		t.Error("no program ran")
	}
	s.agrees(t, m, pid, records, kernel)
}

// contexts returns the contexts of the plan's programs while a process works.
func (s *run) contexts(pid int, work func() error) (events []event, err error) {
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 20})
	if err != nil {
		return nil, err
	}
	defer ring.Close()
	progs := map[string]*ebpf.Program{}
	for i, g := range s.plan.Programs {
		if t := g.Sites[0].Target; lower.Begins(t) || lower.Ends(t) {
			continue
		}
		prog, err := recorder(i, pid, ring, g.Type)
		if err != nil {
			return nil, err
		}
		defer prog.Close()
		progs[g.Name] = prog
	}
	_, others, _ := s.split()
	link, err := others.Attach(progs, nil)
	if err != nil {
		return nil, err
	}
	r, err := ringbuf.NewReader(ring)
	if err != nil {
		return nil, errors.Join(err, link.Close())
	}
	defer r.Close()
	if err := errors.Join(oneCPU(pid), work(), link.Close()); err != nil {
		return nil, err
	}
	r.SetDeadline(time.Unix(1, 0)) // what is there is read
	for {
		rec, err := r.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return events, nil
		}
		var e event
		if err == nil {
			err = binary.Read(bytes.NewReader(rec.RawSample), binary.LittleEndian, &e)
		}
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
}

// oneCPU moves a process's threads to one CPU.
func oneCPU(pid int) error {
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &may); err != nil {
		return err
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if may.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, d := range threads {
		tid, _ := strconv.Atoi(d.Name())
		err = errors.Join(err, unix.SchedSetaffinity(tid, &one))
	}
	return err
}

// kernelMemory is the memory of the kernel, read by a program: of what a task is, nothing changes
// while its process waits.
type kernelMemory struct {
	prog *ebpf.Program
	out  *ebpf.Map
}

// newKernelMemory loads the program, which copies a word to an array.
func newKernelMemory(t *testing.T) *kernelMemory {
	t.Helper()
	out, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "word", Type: ebpf.RawTracepoint, License: "GPL", Instructions: asm.Instructions{
			asm.LoadMem(asm.R3, asm.R1, 0, asm.DWord), // the address
			asm.LoadMapValue(asm.R1, out.FD(), 0),
			asm.Mov.Imm(asm.R2, 8),
			asm.FnProbeReadKernel.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	return &kernelMemory{prog, out}
}

// ReadMemory reads words.
func (m *kernelMemory) ReadMemory(dst []byte, addr uint64) error {
	for len(dst) > 0 {
		ret, err := m.prog.Run(&ebpf.RunOptions{Context: []uint64{addr}})
		if err != nil {
			return err
		}
		if ret != 0 {
			return fmt.Errorf("kernel address %#x: error %d", addr, int32(ret))
		}
		var word [8]byte
		if err := m.out.Lookup(uint32(0), &word); err != nil {
			return err
		}
		n := copy(dst, word[:])
		dst, addr = dst[n:], addr+8
	}
	return nil
}
