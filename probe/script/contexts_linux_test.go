package script

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
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
	Program, ThreadID, Time uint64
	Context                 [contextSize]byte
}

const (
	contextSize = 280 // the registers of a user program on arm64 have 272
	eventSize   = 24 + contextSize
)

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
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, int32(at(24))),
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
	m := &interp.Machine{Comm: comm, User: stack.ProcessMemory(pid)}
	m.Builtin = func(name string) uint64 {
		switch name {
		case "pid":
			return owner
		case "tid":
			return now.ThreadID
		case "nsecs", "nsecs_boot":
			return now.Time
		}
		return 0
	}
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
	owner = uint64(pid)
	for _, now = range events {
		run(int(now.Program))
	}
	owner, now = uint64(os.Getpid()), event{}
	for i := range p.plan.Programs {
		if lower.Ends(p.plan.Programs[i].Sites[0].Target) {
			run(i)
		}
	}
	if len(events) == 0 {
		t.Error("no program ran")
	}
	s.agrees(t, m, records, kernel)
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
