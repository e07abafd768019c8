package collect

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/bpfwalk"
)

const (
	mapUnwalked = "unwalked"      // by CPU, where a copy is built
	mapCopying  = "unwalked_ring" // and sent
)

// A copy of a stack that could not be walked yet: what its sample was counted under, then the state of
// bpfwalk.Copier.
const (
	unwalkedKey    = 0
	unwalkedTime   = keySize
	unwalkedValue  = unwalkedTime + 8
	unwalkedWindow = unwalkedValue + 8
	unwalkedState  = unwalkedWindow + 8
)

// Values of waitCopy. Waits are counted when they end, also as those that were not walked.
const (
	notCopied = iota // the stack was walked
	unwalked         // it was not, and there is no copy
	isCopied         // it was not, and the copy was sent
)

// The record of the end of a wait whose stack was copied: its waitKey, since when it was and until when, the
// time that was counted, the thread and the window.
const (
	endedStart  = 2 * keySize
	endedLast   = endedStart + 8
	endedValue  = endedLast + 8
	endedThread = endedValue + 8
	endedWindow = endedThread + 4
	endedSize   = endedWindow + 4
)

const (
	// unwalkedBytes is how much of a stack is copied.
	unwalkedBytes = 16 << 10
	// unwalkedRing is the room for copies that were not walked yet, in bytes; this process maps it twice.
	unwalkedRing = 1 << 20
	// copySliceShift and copiesASlice bound what copying costs: on each CPU some 1,900 in a second, of two
	// to three microseconds.
	copySliceShift = 27
	copiesASlice   = 256
)

// newCopier returns what copies stacks; nil where the kernel's types do not say where registers are.
// Return addresses that uretprobes replaced are not copied: that takes 900 instructions, a tenth of the
// time to attach, for functions that are probed in processes that have just begun.
func newCopier(m members) *bpfwalk.Copier {
	off, err := taskStack(m)
	if err != nil {
		return nil
	}
	return &bpfwalk.Copier{Machine: machine, Bytes: unwalkedBytes, TaskStackOffset: off}
}

// copySpecs adds the maps for copies.
func (f *filter) copySpecs(specs map[string]*ebpf.MapSpec, cpus int) {
	specs[mapUnwalked] = &ebpf.MapSpec{
		Name: mapUnwalked, Type: ebpf.Array, KeySize: 4,
		ValueSize: uint32(unwalkedState + f.copier.StateSize()), MaxEntries: uint32(cpus),
	}
	specs[mapCopying] = &ebpf.MapSpec{Name: mapCopying, Type: ebpf.RingBuf, MaxEntries: unwalkedRing}
}

// copies reports whether a program copies stacks. A waker's are not copied.
func (f *filter) copies(p *probe.ProgramPlan) bool {
	return f.copier != nil && (f.waits == 0 || p.Group == groupSwitch)
}

// copyUnwalked sends a copy of the user's stack of a sample that was just counted, or of a wait that
// begins, if someone walks copies and its own walk was without the rules of a process, or of a mapping: they
// may only not be there yet. What slotTotal has is what was counted; a wait's is only known when it has
// ended (endCopied), and its copy has the thread instead.
func (f *filter) copyUnwalked(b *builder, walk bool) {
	if f.copier == nil {
		return
	}
	none := b.Unique("walked")
	f.leaveUncopied(b, walk, none)
	f.countUnwalked(b)
	limited := b.Unique("limited")
	claimCopy(b, limited, none)
	f.fillCopy(b, none)
	f.sendCopy(b, none)
	b.Label(limited)
	b.count(counterCopyLimit)
	b.Label(none)
}

// leaveUncopied goes to none if the walk had the rules, there is no user's stack, or nobody walks copies.
func (f *filter) leaveUncopied(b *builder, walk bool, none string) {
	if walk {
		want := b.Unique("unwalked")
		b.Add(
			asm.LoadMem(asm.R1, regScratch, b.key+keyUserEnd, asm.Word),
			asm.JEq.Imm(asm.R1, userWalked|int32(stack.StopNone), none),
			asm.JEq.Imm(asm.R1, userWalked|int32(stack.StopNoMapping), want),
			asm.LoadMem(asm.R1, regScratch, int16(scratchState+walker.FlagsOffset()), asm.Word),
			asm.JEq.Imm(asm.R1, 0, none), // the walker knows the process, and its code has 64 bits
		)
		b.Label(want)
	}
	b.Add(
		asm.LoadMem(asm.R1, regScratch, b.key+keyUser, asm.DWord),
		asm.JSLE.Imm(asm.R1, 0, none),
	)
	b.lookupIndex(mapMode, 0)
	b.Add(
		asm.JEq.Imm(asm.R0, 0, none),
		asm.LoadMem(asm.R1, asm.R0, wordCopy, asm.Word),
		asm.JEq.Imm(asm.R1, 0, none),
	)
}

// countUnwalked counts a sample, or has the end of a wait count that.
func (f *filter) countUnwalked(b *builder) {
	if f.waits != 0 {
		b.Add(asm.Mov.Imm(asm.R1, unwalked), asm.StoreMem(regScratch, scratchWait+waitCopy, asm.R1, asm.DWord))
	} else {
		b.count(counterUnwalked)
	}
}

// claimCopy goes to limited if a slice of time has its copies, and to none without the buffer.
func claimCopy(b *builder, limited, none string) {
	same := b.Unique("slice")
	b.Add(
		// The buffer is the first slot's.
		asm.LoadMem(asm.R1, asm.RFP, slotClaim, asm.Word),
		asm.JNE.Imm(asm.R1, 0, none),
		asm.LoadMem(asm.R1, asm.RFP, slotNow, asm.DWord),
		asm.RSh.Imm(asm.R1, copySliceShift),
		asm.LoadMem(asm.R2, regScratch, scratchSlice, asm.DWord),
		asm.JEq.Reg(asm.R1, asm.R2, same),
		asm.StoreMem(regScratch, scratchSlice, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(regScratch, scratchCopies, asm.R1, asm.DWord),
	)
	b.Label(same)
	b.Add(
		asm.LoadMem(asm.R1, regScratch, scratchCopies, asm.DWord),
		asm.JGE.Imm(asm.R1, copiesASlice, limited),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(regScratch, scratchCopies, asm.R1, asm.DWord),
	)
}

// fillCopy writes a copy to the CPU's buffer, to which regTmp points then, and its size to R3.
func (f *filter) fillCopy(b *builder, none string) {
	b.Add(
		asm.FnGetSmpProcessorId.Call(),
		asm.StoreMem(asm.RFP, slotIndex, asm.R0, asm.Word),
	)
	b.lookup(mapUnwalked, asm.RFP, slotIndex)
	b.Add(asm.JEq.Imm(asm.R0, 0, none), asm.Mov.Reg(regTmp, asm.R0))
	b.move(regTmp, unwalkedKey, regScratch, b.key, keySize)
	b.move(regTmp, unwalkedTime, asm.RFP, slotNow, 8)
	if f.waits != 0 {
		b.Add(
			asm.LoadMem(asm.R1, asm.RFP, slotTask, asm.Word),
			asm.StoreMem(regTmp, unwalkedValue, asm.R1, asm.DWord),
		)
	} else if f.sums() {
		b.move(regTmp, unwalkedValue, asm.RFP, slotTotal+8, 8)
	} else {
		b.move(regTmp, unwalkedValue, asm.RFP, slotTotal, 8) // 1
	}
	if b.windowed != nil && f.waits == 0 {
		b.Add(asm.LoadMem(asm.R1, asm.RFP, slotWindow, asm.Word))
	} else {
		b.Add(asm.Mov.Imm(asm.R1, 0))
	}
	b.Add(
		asm.StoreMem(regTmp, unwalkedWindow, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, regTmp),
		asm.Add.Imm(asm.R1, unwalkedState),
		asm.Call.Label(bpfwalk.CopyFunc),
		asm.JGT.Imm(asm.R0, int32(f.copier.StateSize()), none), // for the verifier
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Add.Imm(asm.R3, unwalkedState),
	)
}

// sendCopy sends the buffer's R3 bytes, and goes to none if they are sent or counted as lost.
func (f *filter) sendCopy(b *builder, none string) {
	b.loadMap(asm.R1, mapCopying)
	b.Add(
		asm.Mov.Reg(asm.R2, regTmp),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
	)
	sent := none
	if f.waits != 0 {
		sent = b.Unique("sent")
	}
	b.Add(asm.JEq.Imm(asm.R0, 0, sent))
	b.count(counterCopyFull)
	b.Add(asm.Ja.Label(none))
	if f.waits != 0 {
		b.Label(sent)
		b.Add(
			asm.Mov.Imm(asm.R1, isCopied),
			asm.StoreMem(regScratch, scratchWait+waitCopy, asm.R1, asm.DWord),
			asm.Ja.Label(none),
		)
	}
}

// endCopied counts the wait in regTmp if its stack was not walked, and says what it was counted under and
// as what, if its stack was copied when it began.
func (f *filter) endCopied(b *builder) {
	if f.copier == nil {
		return
	}
	none, full := b.Unique("whole"), b.Unique("unsaid")
	b.Add(asm.LoadMem(asm.R1, regTmp, waitCopy, asm.DWord), asm.JEq.Imm(asm.R1, notCopied, none))
	b.count(counterUnwalked)
	b.Add(asm.LoadMem(asm.R1, regTmp, waitCopy, asm.DWord), asm.JNE.Imm(asm.R1, isCopied, none))
	b.loadMap(asm.R1, mapCopying)
	b.Add(
		asm.Mov.Imm(asm.R2, endedSize),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, full),
	)
	b.move(asm.R0, 0, regTmp, waitTask, 2*keySize)
	b.move(asm.R0, endedStart, regTmp, waitStart, 8)
	b.move(asm.R0, endedLast, asm.RFP, slotNow, 8)
	b.move(asm.R0, endedValue, asm.RFP, slotTotal+8, 8)
	b.Add(
		asm.LoadMem(asm.R1, asm.RFP, slotTask, asm.Word),
		asm.StoreMem(asm.R0, endedThread, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, 0),
	)
	if b.windowed != nil {
		b.Add(asm.LoadMem(asm.R1, asm.RFP, slotWindow, asm.Word))
	}
	b.Add(
		asm.StoreMem(asm.R0, endedWindow, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRingbufSubmit.Call(),
		asm.Ja.Label(none),
	)
	b.Label(full)
	b.count(counterCopyFull)
	b.Label(none)
}
