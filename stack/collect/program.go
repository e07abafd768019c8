package collect

import (
	"encoding/binary"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/bpfasm"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// license is what the programs declare: bpf_get_stack is for GPL-compatible
// programs only (gpl_only in kernel/bpf/stackmap.c).
const license = "Dual MIT/GPL"

// Names of the maps in the collection.
const (
	mapCounts   = "counts"
	mapTotals   = "totals"
	mapWaits    = "waits"
	mapLast     = "last"
	mapSegments = "segments"
	mapScratch  = "scratch"
	mapCounters = "counters"
	mapSeen     = "seen"
	mapFirst    = "first"
	mapPIDs     = "pids"
	mapMode     = "mode"
	mapEpochs   = "epochs"
)

// halves are the names of the two maps that a table has with Options.Windows, and whole that of
// the map that names them both.
func halves(name string) [2]string { return [2]string{name + ".a", name + ".b"} }
func whole(name string) string     { return name + "_of" }

// The words of mapMode.
const (
	wordWindow = 0 // which halves are written to
	wordCopy   = 4 // 1 if someone walks copies
	modeSize   = 8
)

// mapSpecs returns the maps of a collector with room for maxStacks stacks.
func (f *filter) mapSpecs(maxStacks uint32) map[string]*ebpf.MapSpec {
	specs := map[string]*ebpf.MapSpec{
		mapSegments: {
			Name: mapSegments, Type: ebpf.Hash,
			KeySize: segmentSize, ValueSize: 8, MaxEntries: maxStacks,
		},
		mapScratch: {
			Name: mapScratch, Type: ebpf.PerCPUArray,
			KeySize: 4, ValueSize: scratchSize, MaxEntries: scratchSlots,
		},
		mapCounters: {
			Name: mapCounters, Type: ebpf.PerCPUArray,
			KeySize: 4, ValueSize: 8, MaxEntries: numCounters,
		},
		mapSeen: {
			Name: mapSeen, Type: ebpf.LRUHash,
			KeySize: seenSize, ValueSize: 8, MaxEntries: 1 << 14,
		},
		mapMode:  {Name: mapMode, Type: ebpf.Array, KeySize: 4, ValueSize: modeSize, MaxEntries: 1},
		mapFirst: {Name: mapFirst, Type: ebpf.RingBuf, MaxEntries: 1 << 16},
		// A process that is not here has an epoch of 0: where that is one of earlier samples again, they
		// are told apart by their times as far as possible.
		mapEpochs: {Name: mapEpochs, Type: ebpf.LRUHash, KeySize: 4, ValueSize: 8, MaxEntries: 1 << 12},
	}
	if f.sums() {
		specs[mapTotals] = &ebpf.MapSpec{
			Name: mapTotals, Type: ebpf.Hash,
			KeySize: 2 * keySize, ValueSize: 8*totalWords + timesSize, MaxEntries: maxStacks,
		}
	} else {
		specs[mapCounts] = &ebpf.MapSpec{
			Name: mapCounts, Type: ebpf.Hash,
			KeySize: keySize, ValueSize: 8*countWords + timesSize, MaxEntries: maxStacks,
		}
	}
	if f.waits != 0 {
		specs[mapWaits] = &ebpf.MapSpec{
			Name: mapWaits, Type: ebpf.Hash,
			KeySize: 4, ValueSize: waitSize, MaxEntries: maxStacks,
		}
		specs[mapLast] = &ebpf.MapSpec{
			Name: mapLast, Type: ebpf.PerCPUArray,
			KeySize: 4, ValueSize: 4, MaxEntries: 1,
		}
	}
	for _, name := range f.windowed() {
		spec := specs[name]
		delete(specs, name)
		outer := &ebpf.MapSpec{
			Name: whole(name), Type: ebpf.ArrayOfMaps,
			KeySize: 4, ValueSize: 4, MaxEntries: 2, InnerMap: spec,
		}
		for i, half := range halves(name) {
			s := spec.Copy()
			s.Name = half
			specs[half] = s
			outer.Contents = append(outer.Contents, ebpf.MapKV{Key: uint32(i), Value: half})
		}
		specs[whole(name)] = outer
	}
	return specs
}

// table is the map that keeps what is counted.
func (f *filter) table() string {
	if f.sums() {
		return mapTotals
	}
	return mapCounts
}

// windowed are the maps that there are two of with Options.Windows. The stacks of waits are in
// one map: a wait that begins in one window may end in another.
func (f *filter) windowed() []string {
	switch {
	case !f.windows:
		return nil
	case f.waits != 0:
		return []string{f.table()}
	}
	return []string{f.table(), mapSegments}
}

// pidsSpec is the map of the processes to keep.
func pidsSpec(n int) *ebpf.MapSpec {
	return &ebpf.MapSpec{
		Name: mapPIDs, Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: uint32(n),
	}
}

// Registers that keep their meaning through the whole program; helpers leave
// R6 to R9 alone.
const (
	regCtx     = asm.R6
	regID      = asm.R7 // tgid<<32 | tid
	regScratch = asm.R8
	regTmp     = asm.R9
)

// Stack slots of the program's own frame.
const (
	slotIndex = -4  // u32 key of array lookups
	slotClaim = -8  // u32 index of the claimed scratch slot
	slotValue = -16 // u64 value for map updates; the record of mapFirst
	slotTask  = -20 // u32 key of mapWaits
	slotNow   = -48 // u64 time of the event
	slotGap   = -52 // u32 1 if the thread that leaves was not seen to come

	// With Options.Windows, the maps to write to.
	slotTable    = -64 // mapCounts or mapTotals
	slotSegments = -72

	slotTotal  = -104 // what to add to a table: counted or summed
	slotWindow = -108 // u32 with Options.Windows, which halves are written to
)

// A new segment's id: the count above the CPU above the scratch slot. It stays
// positive for 2^39 segments a slot.
const (
	idCPUShift   = 4
	idCountShift = 24
)

// filter is what the programs leave out, and how they key what they keep.
type filter struct {
	noKernel, noUser bool
	idle             bool
	perThread        bool
	windows          bool   // Options.Windows
	self             uint32 // this process, 0 to keep it
	pids             bool   // only those in mapPIDs
	comm             string

	value    string // Options.Value
	waits    Waits  // 0: events are counted
	min, max uint64
	states   State

	lives *lives // nil: lives are not told apart

	copier *bpfwalk.Copier // nil: stacks that can't be walked yet are not copied
}

// sums reports whether there is more to add up than the number of events.
func (f *filter) sums() bool { return f.value != "" || f.waits != 0 }

// program returns the instructions of the plan's program with this index. With
// walk, the user's stack is walked by package stack's walker, which the caller
// adds; without, by the kernel's helper.
func (f *filter) program(p *probe.ProgramPlan, index int, walk bool) (asm.Instructions, error) {
	b := builder{key: scratchKey, windowed: f.windowed()}
	b.begin(p)
	var err error
	switch {
	case f.waits == 0:
		err = f.event(&b, p, index, walk)
	case p.Group == groupSwitch:
		err = f.switched(&b, p, index, walk)
	default:
		err = f.waking(&b, p, index, walk)
	}
	b.Label("return")
	b.Add(asm.Mov.Imm(asm.R0, kernel.Idle(p.Type)), asm.Return())
	return b.Finish(), err
}

// event counts the current stacks: filter, claim a scratch slot, find both
// stacks' ids, count the key, release the slot.
func (f *filter) event(b *builder, p *probe.ProgramPlan, index int, walk bool) error {
	b.Add(
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(regID, asm.R0),
	)
	f.filterTask(b)
	b.now()
	b.claimScratch()
	f.fillKey(b, index)
	f.filterComm(b)
	f.fillLife(b)
	b.count(counterSamples)
	b.findHalves("release")
	f.findStacks(b, walk)
	if f.value != "" {
		b.clearWaker()
		if err := b.loadField(asm.R1, p, f.value); err != nil {
			return err
		}
		b.setTotal(asm.R1, asm.RFP, slotNow)
		b.addTotal(regScratch, scratchKey, "release")
	} else {
		b.countKey("release")
	}
	f.copyUnwalked(b, walk)
	b.firstSight()
	b.release()
	b.Label("exit")
	return nil
}

// findStacks writes the ids of the current task's stacks to the key.
func (f *filter) findStacks(b *builder, walk bool) {
	if !f.noKernel {
		b.askHelper(regScratch, scratchPCs, 0)
		b.stackID(keyKernel, helperFrames)
	}
	switch {
	case f.noUser:
	case walk:
		b.walkUser()
		b.stackID(keyUser, walkerFrames)
	default:
		const bpfFUserStack = 1 << 8 // BPF_F_USER_STACK, include/uapi/linux/bpf.h
		b.askHelper(regScratch, scratchPCs, bpfFUserStack)
		b.stackID(keyUser, helperFrames)
	}
}

// The forms of programs that take user stacks. Two are attached for a moment when one replaces the other;
// Collector.turns says which counts.
const (
	formHelper uint8 = iota // asks the kernel's helper
	formWalker              // has the walker
	formNone                // counts nothing yet
)

// filterTask leaves when the current task is not to be counted.
func (f *filter) filterTask(b *builder) {
	if !f.idle {
		// Only the idle tasks have thread group 0 and thread 0.
		b.Add(asm.JEq.Imm(regID, 0, "exit"))
	}
	if f.self == 0 && !f.pids {
		return
	}
	b.Add(asm.Mov.Reg(regTmp, regID), asm.RSh.Imm(regTmp, 32))
	if f.self != 0 {
		b.Add(asm.JEq.Imm(regTmp, int32(f.self), "exit"))
	}
	if f.pids {
		b.Add(asm.StoreMem(asm.RFP, slotIndex, regTmp, asm.Word))
		b.lookup(mapPIDs, asm.RFP, slotIndex)
		b.Add(asm.JEq.Imm(asm.R0, 0, "exit"))
	}
}

// claims is how programs claim slots of the scratch memory, on all kernels.
var claims bpfasm.Claims

// claimScratch leaves a slot in regScratch that no other program on this CPU uses.
func (b *builder) claimScratch() {
	for slot := range scratchSlots {
		taken := b.Unique("taken")
		b.lookupIndex(mapScratch, int32(slot))
		b.Add(
			asm.StoreImm(asm.RFP, slotClaim, int64(slot), asm.Word),
			asm.JEq.Imm(asm.R0, 0, "exit"),
			asm.Mov.Reg(regScratch, asm.R0),
		)
		b.Add(claims.Claim(regScratch, scratchClaims, taken)...)
		b.Add(asm.Ja.Label("claimed"))
		b.Label(taken)
		b.Add(claims.Taken(regScratch, scratchClaims)...)
	}
	b.count(counterNested)
	b.Add(asm.Ja.Label("exit"))
	b.Label("claimed")
}

// release gives the slot back. Paths that end early come here too.
func (b *builder) release() {
	b.Label("release")
	b.Add(claims.Release(regScratch, scratchClaims)...)
}

// fillKey writes the key but for the stacks.
func (f *filter) fillKey(b *builder, index int) {
	b.Add(
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(regScratch, b.key+keyKernel, asm.R1, asm.DWord),
		asm.StoreMem(regScratch, b.key+keyUser, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R2, regID),
		asm.RSh.Imm(asm.R2, 32),
		asm.StoreMem(regScratch, b.key+keyPID, asm.R2, asm.Word),
	)
	if f.perThread {
		b.Add(asm.StoreMem(regScratch, b.key+keyTID, regID, asm.Word))
	} else {
		b.Add(asm.StoreMem(regScratch, b.key+keyTID, asm.R1, asm.Word))
	}
	b.Add(
		asm.Mov.Imm(asm.R1, int32(index)),
		asm.StoreMem(regScratch, b.key+keyProgram, asm.R1, asm.DWord), // and UserEnd
		asm.Mov.Reg(asm.R1, regScratch),
		asm.Add.Imm(asm.R1, int32(b.key+keyComm)),
		asm.Mov.Imm(asm.R2, 16),
		asm.FnGetCurrentComm.Call(),
	)
}

// filterComm releases the slot of a task whose name is not the wanted one.
func (f *filter) filterComm(b *builder) {
	if f.comm == "" {
		return
	}
	var want [16]byte
	copy(want[:15], f.comm)
	for i := 0; i < len(want); i += 8 {
		b.Add(
			asm.LoadMem(asm.R1, regScratch, b.key+keyComm+int16(i), asm.DWord),
			asm.LoadImm(asm.R2, int64(binary.NativeEndian.Uint64(want[i:])), asm.DWord),
			asm.JNE.Reg(asm.R1, asm.R2, "release"),
		)
	}
}

// askHelper has the kernel walk a stack to base+off; R0 is its size in bytes,
// or a negative errno.
func (b *builder) askHelper(base asm.Register, off, flags int32) {
	b.Add(
		asm.Mov.Reg(asm.R1, regCtx),
		asm.Mov.Reg(asm.R2, base),
		asm.Add.Imm(asm.R2, off),
		asm.Mov.Imm(asm.R3, 8*helperFrames),
		asm.Mov.Imm(asm.R4, flags),
		asm.FnGetStack.Call(),
	)
}

// walkUser does the same with package stack's walker.
func (b *builder) walkUser() {
	b.Add(
		asm.Mov.Reg(asm.R1, regScratch),
		asm.Add.Imm(asm.R1, scratchState),
		asm.Call.Label(bpfwalk.WalkFunc),
		asm.LSh.Imm(asm.R0, 3),
		asm.LoadMem(asm.R1, regScratch, int16(scratchState+walker.EndOffset()), asm.Word),
		asm.Or.Imm(asm.R1, userWalked),
		asm.StoreMem(regScratch, b.key+keyUserEnd, asm.R1, asm.Word),
	)
}

// stackID writes the id of the stack in the scratch slot, R0 bytes long, to the
// key's field, or R0 itself if that is an error.
func (b *builder) stackID(field int16, frames int) {
	done, refused := b.Unique("stack"), b.Unique("refused")
	b.Add(
		asm.JSLE.Imm(asm.R0, 0, refused),
		asm.JGT.Imm(asm.R0, int32(8*frames), done), // for the verifier

		// The walker or helper wrote the frames and no more; clear the rest.
		asm.Mov.Reg(regTmp, asm.R0),
		asm.Mov.Reg(asm.R1, regScratch),
		asm.Add.Imm(asm.R1, scratchPCs),
		asm.Add.Reg(asm.R1, regTmp),
		asm.Mov.Imm(asm.R2, 8*segmentPCs),
		asm.Mov.Reg(asm.R3, regScratch),
		asm.Add.Imm(asm.R3, scratchZeros),
		asm.FnProbeReadKernel.Call(),
		asm.Mov.Imm(asm.R0, 0),
	)
	for from := 0; from < frames; from += segmentPCs {
		// A segment begins with its parent, which goes where the last address
		// of the segment before was; that is no longer needed.
		at := scratchPCs + int32(8*from) - 8
		b.Add(asm.StoreMem(regScratch, int16(at), asm.R0, asm.DWord))
		b.segmentID(at, done)
		b.Add(
			asm.StoreMem(regScratch, b.key+field, asm.R0, asm.DWord),
			asm.JLE.Imm(regTmp, int32(8*(from+segmentPCs)), done),
		)
	}
	b.Add(asm.Ja.Label(done))
	b.Label(refused)
	b.Add(asm.StoreMem(regScratch, b.key+field, asm.R0, asm.DWord))
	b.Label(done)
}

// segmentID leaves in R0 the id of the segment at an offset of the scratch
// slot, giving it one if it is new. Without room for it, it counts that and
// goes to full.
func (b *builder) segmentID(off int32, full string) {
	known, raced, got := b.Unique("known"), b.Unique("raced"), b.Unique("got")
	b.lookup(mapSegments, regScratch, off)
	b.Add(
		asm.JNE.Imm(asm.R0, 0, known),

		// An id is unique by the CPU, the scratch slot and the slot's own count.
		asm.FnGetSmpProcessorId.Call(),
		asm.LoadMem(asm.R1, regScratch, scratchLastID, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(regScratch, scratchLastID, asm.R1, asm.DWord),
		asm.LSh.Imm(asm.R1, idCountShift),
		asm.LSh.Imm(asm.R0, idCPUShift),
		asm.Or.Reg(asm.R0, asm.R1),
		asm.LoadMem(asm.R1, asm.RFP, slotClaim, asm.Word),
		asm.Or.Reg(asm.R0, asm.R1),
		asm.StoreMem(asm.RFP, slotValue, asm.R0, asm.DWord),
	)
	b.update(mapSegments, regScratch, off, asm.RFP, slotValue, bpfNoExist)
	b.Add(
		asm.JNE.Imm(asm.R0, 0, raced),
		asm.LoadMem(asm.R0, asm.RFP, slotValue, asm.DWord),
		asm.Ja.Label(got),
	)
	b.Label(raced) // or full
	b.lookup(mapSegments, regScratch, off)
	b.Add(asm.JNE.Imm(asm.R0, 0, known))
	b.count(counterSegments)
	b.Add(asm.Ja.Label(full))
	b.Label(known)
	b.Add(asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord))
	b.Label(got)
}

// countKey adds one to the key's count. Without room for it, it counts that
// and goes to full.
func (b *builder) countKey(full string) {
	b.Add(
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, slotTotal, asm.R1, asm.DWord),
	)
	b.setTimes(countWords, asm.RFP, slotNow)
	b.accumulate(mapCounts, regScratch, scratchKey, countWords, full)
}

// setTimes puts the times behind the numbers to add: the first is at base+off, the last is now. It
// changes R2.
func (b *builder) setTimes(words int16, base asm.Register, off int16) {
	b.Add(
		asm.LoadMem(asm.R2, base, off, asm.DWord),
		asm.StoreMem(asm.RFP, slotTotal+8*words, asm.R2, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, slotNow, asm.DWord),
		asm.StoreMem(asm.RFP, slotTotal+8*words+8, asm.R2, asm.DWord),
	)
}

// accumulate adds words numbers, on the stack at slotTotal, to those that a map has
// under the key at base+off, and sets the last of the two times behind them.
func (b *builder) accumulate(name string, base asm.Register, off int32, words int16, full string) {
	known, done := b.Unique("known"), b.Unique("done")
	b.lookup(name, base, off)
	b.Add(asm.JNE.Imm(asm.R0, 0, known))
	b.update(name, base, off, asm.RFP, slotTotal, bpfNoExist)
	b.Add(asm.JEq.Imm(asm.R0, 0, done))
	// Another CPU was faster, or the map is full.
	b.lookup(name, base, off)
	b.Add(asm.JNE.Imm(asm.R0, 0, known))
	b.count(counterFull)
	b.Add(asm.Ja.Label(full))
	b.Label(known)
	for i := range words {
		b.Add(
			asm.LoadMem(asm.R1, asm.RFP, slotTotal+8*i, asm.DWord),
			asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 8*i),
		)
	}
	b.Add(
		asm.LoadMem(asm.R1, asm.RFP, slotTotal+8*words+8, asm.DWord),
		asm.StoreMem(asm.R0, 8*words+8, asm.R1, asm.DWord),
	)
	b.Label(done)
}

// secondSight is the time after which a process is announced again, in nanoseconds after
// the first time: an exec is over by then.
const secondSight = 100_000_000

// A process's value in mapSeen is the time at which it was announced last. Its lowest bits
// count how often that was, up to sightsMost.
const (
	sightsMask = 15
	sightsMost = 10
)

// unknownProcess is what the walker's state has at FlagsOffset for a process that it was not given.
const unknownProcess = 1

// firstSight sends the process's ids when it is seen for the first time under a name, so
// that a reader can look at it while it lives, and again when it runs another program. That
// may have the same name, and a process that is seen in the middle of an exec has no
// mappings: it is sent once more when it is seen later. From then on it is sent where a stack
// leads out of the mappings that the walker knows, as a library's that was loaded since, or where
// the walker knows none, as of a process that has the number of one that ended; each time after
// twice as long as before, for code can be in no file at all.
func (b *builder) firstSight() {
	first, again, note := b.Unique("first"), b.Unique("again"), b.Unique("note")
	b.lookup(mapSeen, regScratch, int32(b.key+keyPID))
	b.Add(
		asm.JEq.Imm(asm.R0, 0, first),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.StoreMem(asm.RFP, slotValue, asm.R1, asm.DWord),
		asm.And.Imm(asm.R1, sightsMask),
		asm.JLE.Imm(asm.R1, 1, again),
		asm.LoadMem(asm.R2, regScratch, b.key+keyUserEnd, asm.Word),
		asm.JEq.Imm(asm.R2, userWalked|int32(stack.StopNoMapping), again),
		asm.JEq.Imm(asm.R2, 0, "release"),
		asm.LoadMem(asm.R2, regScratch, int16(scratchState+walker.FlagsOffset()), asm.Word),
		asm.JNE.Imm(asm.R2, unknownProcess, "release"), // the walker knows the process, or has no use for it
	)
	b.Label(again)
	b.Add(
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, asm.RFP, slotValue, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.And.Imm(asm.R2, sightsMask),
		asm.Mov.Imm(asm.R3, secondSight/2),
		asm.LSh.Reg(asm.R3, asm.R2),
		asm.Add.Reg(asm.R3, asm.R1),
		asm.JLT.Reg(asm.R0, asm.R3, "release"),
		asm.JGE.Imm(asm.R2, sightsMost, note),
		asm.Add.Imm(asm.R2, 1),
		asm.Ja.Label(note),
	)
	b.Label(first)
	b.Add(asm.FnKtimeGetNs.Call(), asm.Mov.Imm(asm.R2, 1))
	b.Label(note)
	b.Add(
		asm.And.Imm(asm.R0, ^sightsMask),
		asm.Or.Reg(asm.R0, asm.R2),
		asm.StoreMem(asm.RFP, slotValue, asm.R0, asm.DWord),
	)
	b.update(mapSeen, regScratch, int32(b.key+keyPID), asm.RFP, slotValue, bpfAny)
	b.Add(asm.StoreMem(asm.RFP, slotValue, regID, asm.DWord))
	b.loadMap(asm.R1, mapFirst)
	b.Add(
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, slotValue),
		asm.Mov.Imm(asm.R3, 8),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, "release"),
	)
	b.count(counterRing)
}
