package kernel

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Turns say which of several programs of one event counts it, by CPU: all of them are attached while one
// takes over from another, and all find the same number, unless the kernel preempts the event's thread
// between two of them. Close it when no further program is made.
type Turns struct {
	m    *ebpf.Map
	cpus int

	mu    sync.Mutex
	bytes []byte // of m, mapped: the number of the program whose turn it is, by CPU; nil after Close
}

// NewTurns makes it the turn of program 0 on all CPUs. It needs Linux 5.5.
func NewTurns() (*Turns, error) {
	// Kernels before 5.11 charge maps against a limit. If it can't be raised, the map is refused.
	_ = RaiseMemlock()
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "turns", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(cpus), MaxEntries: 1, Flags: mmapable,
	})
	if err != nil {
		return nil, err
	}
	bytes, err := mapShared(m.FD(), cpus)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &Turns{m: m, cpus: cpus, bytes: bytes}, nil
}

// mmapable is BPF_F_MMAPABLE.
const mmapable = 1 << 10

// Close does not end what programs do. It may be called again, and on nil.
func (t *Turns) Close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	bytes := t.bytes
	t.bytes = nil
	return errors.Join(unmap(bytes), t.m.Close())
}

// Guard makes a program do nothing and return idle on CPUs where it is not the turn of its number.
func (t *Turns) Guard(ins asm.Instructions, own uint8, idle int32) (asm.Instructions, error) {
	if len(ins) == 0 {
		return nil, fmt.Errorf("no instructions")
	}
	const others, mine = "turn.others", "turn.mine"
	out := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetSmpProcessorId.Call(),
		asm.JGE.Imm(asm.R0, int32(t.cpus), others), // never, but the verifier does not know it
		asm.LoadMapValue(asm.R1, t.m.FD(), 0),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R0, asm.R1, 0, asm.Byte),
		asm.JEq.Imm(asm.R0, int32(own), mine),
		asm.Mov.Imm(asm.R0, idle).WithSymbol(others),
		asm.Return(),
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(mine),
	}
	out[0].Metadata = ins[0].Metadata // it is now the function's first instruction
	first, err := bare(ins[0])
	if err != nil {
		return nil, err
	}
	return append(append(out, first), ins[1:]...), nil
}

// Give makes it the turn of the program with this number, on one CPU after the other. When it returns, the
// others have ended. It runs for a moment on each CPU: some 20 µs if that is idle, longer if it is busy.
func (t *Turns) Give(to uint8) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes == nil {
		return os.ErrClosed
	}
	// One store of one byte, in user mode: the CPU is between two events.
	if err := onEachCPU(t.cpus, func(cpu int) { t.bytes[cpu] = to }); err != nil {
		return err
	}
	synchronize() // with programs that were preempted
	return nil
}
