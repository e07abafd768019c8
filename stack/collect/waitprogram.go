package collect

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe"
)

// The targets of a collector of waits, in this order (probe.ProgramPlan.Group).
const (
	groupSwitch = iota // sched:sched_switch
	groupWaking        // sched:sched_waking
)

// States that sched_switch reports and State does not name:
// __trace_sched_switch_state, include/trace/events/sched.h.
const (
	stateRunning = 0    // gave way while it could run on
	stateDead    = 0x30 // EXIT_DEAD, EXIT_ZOMBIE: it will not come back
)

// switched is the program of sched_switch: the next thread's wait ends, the
// previous one's begins. Both by the same clock reading, so that the times add up.
func (f *filter) switched(b *builder, p *probe.ProgramPlan, index int, walk bool) error {
	b.now()
	if err := b.follow(p); err != nil {
		return err
	}
	if err := f.arrive(b, p); err != nil {
		return err
	}
	return f.leave(b, p, index, walk)
}

// now notes the time of the event.
func (b *builder) now() {
	b.Add(asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.RFP, slotNow, asm.R0, asm.DWord))
}

// lastTraced is the bit of mapLast that is set if the thread is one of the traced ones: its
// wait may be known.
const lastTraced = 31

// follow finds out whether the thread that leaves a CPU is the one that was seen to
// come: if not, the kernel gave the program no event of the switches between. That
// counts if the one that came is traced, and in leave if the one that leaves is.
func (b *builder) follow(p *probe.ProgramPlan) error {
	followed := b.Unique("followed")
	b.Add(asm.StoreImm(asm.RFP, slotGap, 0, asm.Word))
	b.lookupIndex(mapLast, 0)
	b.Add(
		asm.JEq.Imm(asm.R0, 0, followed),
		asm.LoadMem(asm.R3, asm.R0, 0, asm.Word),
	)
	if err := b.loadField(asm.R1, p, "next_pid"); err != nil {
		return err
	}
	if err := b.loadField(asm.R2, p, "prev_pid"); err != nil {
		return err
	}
	b.Add(
		asm.Add.Imm(asm.R1, 1), // 0 is no switch so far
		asm.Add.Imm(asm.R2, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.Word),
		asm.JEq.Imm(asm.R3, 0, followed),
		asm.Mov.Reg(asm.R1, asm.R3),
		asm.And.Imm(asm.R1, 1<<lastTraced-1),
		asm.JEq.Reg(asm.R1, asm.R2, followed),
		asm.StoreImm(asm.RFP, slotGap, 1, asm.Word),
		asm.RSh.Imm(asm.R3, lastTraced),
		asm.JEq.Imm(asm.R3, 0, followed),
		asm.StoreImm(asm.RFP, slotGap, 0, asm.Word),
	)
	b.count(counterGaps)
	b.Label(followed)
	return nil
}

// markTraced notes that the thread that was just seen to come is traced.
func (b *builder) markTraced() {
	marked := b.Unique("marked")
	b.lookupIndex(mapLast, 0)
	b.Add(
		asm.JEq.Imm(asm.R0, 0, marked),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
		asm.Or.Imm(asm.R1, -1<<lastTraced),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.Word),
	)
	b.Label(marked)
}

// findWait leaves in regTmp what is known of the thread that a field names, or
// goes to unknown.
func (b *builder) findWait(p *probe.ProgramPlan, field, unknown string) error {
	if err := b.loadField(asm.R1, p, field); err != nil {
		return err
	}
	b.Add(asm.StoreMem(asm.RFP, slotTask, asm.R1, asm.Word))
	b.lookup(mapWaits, asm.RFP, slotTask)
	b.Add(asm.JEq.Imm(asm.R0, 0, unknown), asm.Mov.Reg(regTmp, asm.R0))
	return nil
}

// arrive adds the next thread's time off the CPU to its total.
func (f *filter) arrive(b *builder, p *probe.ProgramPlan) error {
	if err := b.findWait(p, "next_pid", "leave"); err != nil {
		return err
	}
	b.markTraced()
	if f.waits == Wakeups {
		b.count(counterUnwoken) // the waker would have removed it
	} else {
		f.elapsed(b, regTmp, waitStart, "arrived")
		b.count(counterSamples)
		b.findHalves("arrived")
		b.addTotal(regTmp, waitTask, "arrived")
		f.endCopied(b)
	}
	b.Label("arrived")
	b.remove(mapWaits, asm.RFP, slotTask)
	b.Label("leave")
	return nil
}

// elapsed leaves the time since the wait in regTmp began in slotTotal, or goes
// to skip if it is not of the wanted length. The stacks were walked from the time at base+off on.
func (f *filter) elapsed(b *builder, base asm.Register, off int16, skip string) {
	b.Add(
		asm.LoadMem(asm.R1, asm.RFP, slotNow, asm.DWord),
		asm.LoadMem(asm.R2, regTmp, waitStart, asm.DWord),
		asm.Sub.Reg(asm.R1, asm.R2),
	)
	if f.min > 0 {
		b.Add(asm.LoadImm(asm.R2, int64(f.min), asm.DWord), asm.JLT.Reg(asm.R1, asm.R2, skip))
	}
	if f.max > 0 {
		b.Add(asm.LoadImm(asm.R2, int64(f.max), asm.DWord), asm.JGT.Reg(asm.R1, asm.R2, skip))
	}
	b.setTotal(asm.R1, base, off)
}

// setTotal prepares one event with a value, which is in r, not R2. Its first time is at base+off.
func (b *builder) setTotal(r, base asm.Register, off int16) {
	b.Add(
		asm.StoreMem(asm.RFP, slotTotal+8, r, asm.DWord),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreMem(asm.RFP, slotTotal, asm.R2, asm.DWord),
	)
	b.setTimes(totalWords, base, off)
}

// addTotal adds what setTotal prepared under the waitKey at base+off. Without
// room for it, it counts that and goes to full.
func (b *builder) addTotal(base asm.Register, off int32, full string) {
	b.accumulate(mapTotals, base, off, totalWords, full)
}

// clearWaker says that no waker is known.
func (b *builder) clearWaker() {
	b.Add(asm.Mov.Imm(asm.R1, 0))
	for i := int16(0); i < keySize; i += 8 {
		b.Add(asm.StoreMem(regScratch, scratchWaker+i, asm.R1, asm.DWord))
	}
}

// leave notes since when, and with which stacks, the current thread is off its
// CPU.
func (f *filter) leave(b *builder, p *probe.ProgramPlan, index int, walk bool) error {
	b.Add(
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(regID, asm.R0),
	)
	f.filterTask(b)
	known := b.Unique("known")
	b.Add(asm.LoadMem(asm.R1, asm.RFP, slotGap, asm.Word), asm.JEq.Imm(asm.R1, 0, known))
	b.count(counterGaps)
	b.Label(known)
	if err := b.forget(p); err != nil {
		return err
	}
	if err := f.filterState(b, p); err != nil {
		return err
	}
	b.claimScratch()
	f.fillKey(b, index)
	f.filterComm(b)
	f.fillLife(b)
	b.clearWaker()
	if f.waits != Wakeups {
		f.findStacks(b, walk)
	}
	b.move(regScratch, scratchWait+waitStart, asm.RFP, slotNow, 8)
	b.Add(asm.Mov.Imm(asm.R1, notCopied), asm.StoreMem(regScratch, scratchWait+waitCopy, asm.R1, asm.DWord))
	if f.waits != Wakeups {
		f.copyUnwalked(b, walk)
	}
	b.update(mapWaits, asm.RFP, slotTask, regScratch, scratchWait, bpfAny)
	noted := b.Unique("noted")
	b.Add(asm.JEq.Imm(asm.R0, 0, noted))
	b.count(counterWaits)
	b.Label(noted)
	if f.waits != Wakeups {
		b.firstSight()
	}
	b.release()
	b.Label("exit")
	return nil
}

// forget removes what is known of an earlier wait of the thread that leaves: it
// was not seen to end, and would pass for a longer one. Threads are known by the
// number that the events have, the initial namespace's.
func (b *builder) forget(p *probe.ProgramPlan) error {
	if err := b.findWait(p, "prev_pid", "new"); err != nil {
		return err
	}
	b.remove(mapWaits, asm.RFP, slotTask)
	b.count(counterUnended)
	b.Label("new")
	return nil
}

// filterState leaves when the thread does not wait in one of the wanted states.
func (f *filter) filterState(b *builder, p *probe.ProgramPlan) error {
	if err := b.loadField(asm.R1, p, "prev_state"); err != nil {
		return err
	}
	stopped := b.Unique("stopped")
	b.Add(
		asm.JNE.Imm(asm.R1, stateRunning, stopped),
		asm.Mov.Imm(asm.R1, int32(Preempted)),
	)
	b.Label(stopped)
	b.Add(
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.And.Imm(asm.R2, stateDead),
		asm.JNE.Imm(asm.R2, 0, "exit"),
		asm.And.Imm(asm.R1, int32(f.states)),
		asm.JEq.Imm(asm.R1, 0, "exit"),
	)
	return nil
}

// waking is the program of sched_waking, which runs in the waker. It finds the waker's
// stacks, and either adds the wait to the total of both, or keeps them for the moment when
// the thread runs.
//
// Waking may overtake sched_switch on another CPU: then nothing is known of the
// thread yet, and arrive sees a wait without a waker.
func (f *filter) waking(b *builder, p *probe.ProgramPlan, index int, walk bool) error {
	b.now()
	if err := b.findWait(p, "pid", "return"); err != nil {
		return err
	}
	if f.waits == Wakeups { // the stacks are the waker's
		f.elapsed(b, asm.RFP, slotNow, "exit")
	}
	b.Add(
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(regID, asm.R0),
	)
	b.claimScratch()
	if f.waits == Wakeups {
		b.count(counterSamples)
	}
	b.move(regScratch, scratchKey, regTmp, waitTask, keySize)
	b.key = scratchWaker
	f.fillKey(b, index)
	f.fillLife(b)
	f.findStacks(b, walk)
	if f.waits == Wakeups {
		b.findHalves("release")
		b.addTotal(regScratch, scratchKey, "release")
	} else {
		// The walk has used regTmp.
		b.lookup(mapWaits, asm.RFP, slotTask)
		b.Add(asm.JEq.Imm(asm.R0, 0, "release"))
		b.move(asm.R0, waitWaker, regScratch, scratchWaker, keySize)
	}
	b.firstSight()
	b.release()
	b.Label("exit")
	if f.waits == Wakeups {
		b.remove(mapWaits, asm.RFP, slotTask)
	}
	return nil
}
