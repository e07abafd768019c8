package collect

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/kernel"
)

// lives are the offsets of what tells the lives of one number apart: the processes that had it, and the
// programs that each of them executed.
type lives struct {
	leader int32 // task_struct.group_leader
	start  int32 // task_struct.start_boottime
	exec   int32 // task_struct.self_exec_id
}

// findLives finds them in the kernel's types; nil if they are not there.
func findLives(m members) *lives {
	at, err := m.offsets(lifeMembers...)
	if err != nil {
		return nil
	}
	return &lives{leader: int32(at[0]), start: int32(at[1]), exec: int32(at[2])}
}

// fillLife writes to the key which life of the process this is, and how often it is known to have mapped
// one thing in the place of another.
func (f *filter) fillLife(b *builder) {
	known := b.Unique("epoch")
	b.Add(
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(regScratch, b.key+keyStart, asm.R1, asm.DWord),
		asm.StoreMem(regScratch, b.key+keyExec, asm.R1, asm.DWord), // and Epoch
	)
	if l := f.lives; l != nil {
		b.Add(asm.FnGetCurrentTask.Call(), asm.Mov.Reg(regTmp, asm.R0))
		b.readKernel(keyExec, 4, regTmp, l.exec)
		b.readKernel(keyStart, 8, regTmp, l.leader)
		b.Add(asm.LoadMem(regTmp, regScratch, b.key+keyStart, asm.DWord))
		b.readKernel(keyStart, 8, regTmp, l.start)
	}
	b.lookup(mapEpochs, regScratch, int32(b.key+keyPID))
	whole := b.Unique("whole")
	b.Add(
		asm.JEq.Imm(asm.R0, 0, known),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
		asm.LoadMem(asm.R2, asm.R0, 4, asm.Word),
		asm.LoadMem(asm.R3, asm.RFP, slotNow, asm.DWord),
		asm.LSh.Imm(asm.R3, 32-sliceShift),
		asm.RSh.Imm(asm.R3, 32),
		asm.JGE.Reg(asm.R3, asm.R2, whole),
		asm.Add.Reg(asm.R1, asm.R3), // both only grow: no sum comes again
	)
	b.Label(whole)
	b.Add(asm.StoreMem(regScratch, b.key+keyEpoch, asm.R1, asm.Word))
	b.Label(known)
}

// readKernel reads kernel memory at base+off to a field of the key: zeros if it can't be read.
func (b *builder) readKernel(field int16, size int32, base asm.Register, off int32) {
	b.Add(
		asm.Mov.Reg(asm.R1, regScratch),
		asm.Add.Imm(asm.R1, int32(b.key+field)),
		asm.Mov.Imm(asm.R2, size),
		asm.Mov.Reg(asm.R3, base),
		asm.Add.Imm(asm.R3, off),
		asm.FnProbeReadKernel.Call(),
	)
}

// epoch is a value of mapEpochs. What maps things in the place of others may do so again, and that is seen
// some time later. Until then its samples are counted by slices of time, so that few are in one count with
// those of the next state.
type epoch struct {
	Number uint32
	Until  uint32 // the slice from which on there are none
}

const (
	sliceShift = 22  // a slice is 2^22 nanoseconds
	sliceCount = 240 // a second
)

// raise begins an epoch of a process, which no other one had. It is for one goroutine at a time.
func (c *Collector) raise(pid int) {
	c.epoch++
	e := epoch{c.epoch, uint32(kernel.Monotonic()>>sliceShift) + sliceCount}
	_ = c.coll.Maps[mapEpochs].Put(uint32(pid), e) // without it, times tell samples apart as far as possible
}
