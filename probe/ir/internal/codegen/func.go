package codegen

import (
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/bpfasm"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// These are offsets in the value of the control map.
const (
	ctlDisabled = 0  // u32: if not 0, programs do nothing
	ctlSelf     = 4  // u32: process id of the tracer
	ctlStart    = 8  // u64: CLOCK_MONOTONIC at load
	ctlExit     = 16 // u32: set by StmtExit
	ctlCode     = 20 // s32: exit code of StmtExit
	ctlNSDev    = 24 // u64: device and inode of the loader's pid namespace
	ctlNSIno    = 32
	ctlTAI      = 40 // s64: CLOCK_TAI minus CLOCK_MONOTONIC at load
	ctlCPUs     = 48 // u32: possible CPUs
	ctlZero     = 56 // u64: always 0, but unknown to the verifier
)

// These are offsets in the value of the budget map, one per CPU.
const (
	budWindow = 0  // u64: start of the current second
	budEvents = 8  // u64: events emitted in this second
	budStart  = 16 // u64: start of the current CPU window
	budUsed   = 24 // u64: nanoseconds used in this window
)

// cpuWindow is the length of the windows for CPUPercent, in nanoseconds.
const cpuWindow = 100_000_000

// control loads the address of the control map's value.
func (g *runtime) control(dst asm.Register) {
	g.emit(asm.LoadMapValue(dst, 0, 0).WithReference(check.CtlMap))
}

// prologue generates the code before the action.
func (g *runtime) prologue() {
	n := len(g.Insns)
	if g.usesFn["ctx"] || g.usesFn["callbacks"] {
		g.emit(asm.Mov.Reg(g.fn.ctx, asm.R1))
	}
	if g.usesFn["callbacks"] {
		g.store(loc{off: g.ctxSlot}, g.fn.ctx, 8)
		g.storeImm(loc{off: g.retSlot}, 0, 8)
	}
	if g.resultSlot != 0 {
		g.storeImm(loc{off: g.resultSlot}, 0, 8)
	}
	if g.c.Pp.Preemptible() {
		// A run that preempts this one may otherwise use the same stack.
		g.emit(kernel.OwnStack()...)
	}
	if g.usesFn["cookie"] && g.c.Pp.AttachType == ebpf.AttachTraceKprobeSession {
		g.clearCookie()
	}
	g.control(asm.R1)
	if g.filtersSelf() {
		g.emit(asm.LoadMem(asm.R2, asm.R1, ctlDisabled, asm.Word))
		g.emit(asm.JNE.Imm(asm.R2, 0, ".out"))
		g.call(asm.FnGetCurrentPidTgid)
		g.control(asm.R1)
		g.emit(
			asm.RSh.Imm(asm.R0, 32),
			asm.LoadMem(asm.R1, asm.R1, ctlSelf, asm.Word),
			asm.JEq.Reg(asm.R0, asm.R1, ".out"),
		)
	} else {
		g.emit(asm.LoadMem(asm.R2, asm.R1, ctlDisabled, asm.Word), asm.JNE.Imm(asm.R2, 0, ".out"))
	}
	g.Insns[n] = funcMeta(g.Insns[n], g.fn.name, 1, btf.GlobalFunc).WithSymbol(g.fn.name)
	g.cpuBudgetEnter()
	if g.usesFn["scratch"] {
		g.acquire()
	}
}

// filtersSelf reports whether the program leaves out the tracer's own process. Programs that
// do not run on behalf of the current task do not.
func (g *runtime) filtersSelf() bool {
	if g.prog.IncludeSelf {
		return false
	}
	switch g.c.Pp.Method {
	case probe.MethodRun, probe.MethodIter, probe.MethodSocket:
		return false
	}
	if g.progType(ebpf.Syscall, ebpf.SocketFilter) {
		return false
	}
	return !slices.ContainsFunc(g.c.Pp.Sites, func(s probe.Site) bool {
		p, ok := s.Target.(probe.Perf)
		return ok && p.Every > 0
	})
}

// epilogue generates the code after the action, which an early return reaches too.
func (g *runtime) epilogue() {
	g.Label(".exit")
	if g.usesFn["scratch"] {
		g.releaseScratch()
		g.Label(".level")
	}
	g.cpuBudgetLeave()
	if g.resultSlot != 0 {
		g.load(asm.R0, loc{off: g.resultSlot}, 8)
		g.emit(asm.Return())
	}
	g.Label(".out")
	g.emit(asm.Mov.Imm(asm.R0, kernel.Idle(g.c.Pp.Type)), asm.Return())
}

// atomics reports whether the kernel and its JIT have atomic exchange.
func (g *runtime) atomics() bool {
	if g.plan.Arch == "arm64" {
		return g.c.Kern.AtLeast(arm64Atomics)
	}
	return g.c.Kern.AtLeast(atomicsSince)
}

// entry looks up element 0 of an array map. If there is none, it jumps to missing.
func (g *runtime) entry(name string, missing string) {
	m := g.mark()
	s := g.slot()
	g.storeImm(s, 0, 4)
	g.emit(asm.LoadMapPtr(asm.R1, 0).WithReference(name))
	g.addr(asm.R2, s)
	g.call(asm.FnMapLookupElem)
	g.emit(asm.JEq.Imm(asm.R0, 0, missing))
	g.release(m)
}

// claims is how programs claim scratch areas, whose first word is for that.
func (g *runtime) claims() bpfasm.Claims { return bpfasm.Claims{Exchange: g.atomics()} }

// acquire finds a scratch area that no other program on this CPU uses.
func (g *runtime) acquire() {
	got := g.label()
	g.claim(0, got)
	g.Label(got)
	g.emit(asm.Mov.Reg(g.fn.scr, asm.R0), asm.Add.Imm(g.fn.scr, check.ScratchUsed))
	if g.usesFn["callbacks"] {
		g.store(loc{off: g.scratchSlot}, g.fn.scr, 8)
	}
}

// claim tries to claim the area of a level. If it succeeds, it goes on at got with the area's
// address in R0. Otherwise, which is rare, it tries the following levels.
func (g *runtime) claim(level int32, got string) {
	m := g.mark()
	taken, key := g.label(), g.slot()
	if g.lay.Wide {
		g.call(asm.FnGetSmpProcessorId)
		g.emit(asm.Mul.Imm(asm.R0, check.Levels), asm.Add.Imm(asm.R0, level))
		g.store(key, asm.R0, 4)
	} else {
		g.storeImm(key, level, 4)
	}
	g.emit(asm.LoadMapPtr(asm.R1, 0).WithReference(check.ScratchMap))
	g.addr(asm.R2, key)
	g.call(asm.FnMapLookupElem)
	g.release(m)
	g.emit(asm.JEq.Imm(asm.R0, 0, ".level"))
	g.emit(g.claims().Claim(asm.R0, 0, taken)...)
	if level > 0 {
		g.jump(got)
	}
	g.later(taken, func() {
		g.emit(g.claims().Taken(asm.R0, 0)...)
		if level+1 < check.Levels {
			g.claim(level+1, got)
			return
		}
		g.count(check.CntNoScratch)
		g.jump(".level")
	})
}

// releaseScratch gives the scratch area back.
func (g *runtime) releaseScratch() {
	g.emit(g.claims().Release(g.fn.scr, -check.ScratchUsed)...)
}

// cpuBudgetEnter ends the program if its share of the CPU is used up.
func (g *runtime) cpuBudgetEnter() {
	if g.prog.Budget.CPUPercent <= 0 {
		return
	}
	t0 := loc{off: -g.frame.take(8, 8)}
	g.started = t0
	g.call(asm.FnKtimeGetNs)
	g.store(t0, asm.R0, 8)
	g.entry(check.BudgetMap, ".out")
	same, over := g.label(), g.label()
	g.load(asm.R1, t0, 8)
	g.emit(
		asm.LoadMem(asm.R2, asm.R0, budStart, asm.DWord), asm.Mov.Reg(asm.R3, asm.R1),
		asm.Sub.Reg(asm.R3, asm.R2), asm.JLT.Imm(asm.R3, cpuWindow, same),
		asm.StoreMem(asm.R0, budStart, asm.R1, asm.DWord), bpfasm.StoreImm(asm.R0, budUsed, 0, asm.DWord),
	)
	g.Label(same)
	limit := int32(min(g.prog.Budget.CPUPercent, 100) / 100 * cpuWindow)
	g.emit(asm.LoadMem(asm.R2, asm.R0, budUsed, asm.DWord), asm.JGT.Imm(asm.R2, limit, over))
	g.later(over, func() {
		g.count(check.CntThrottled)
		g.jump(".out")
	})
}

// cpuBudgetLeave adds the time of this run to the window.
func (g *runtime) cpuBudgetLeave() {
	if g.prog.Budget.CPUPercent <= 0 {
		return
	}
	m := g.mark()
	defer g.release(m)
	d := g.slot()
	g.call(asm.FnKtimeGetNs)
	g.load(asm.R1, g.started, 8)
	g.emit(asm.Sub.Reg(asm.R0, asm.R1))
	g.store(d, asm.R0, 8)
	g.entry(check.BudgetMap, ".out")
	g.load(asm.R1, d, 8)
	g.emit(asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, budUsed))
}

// eventBudget jumps to over if the events of this second are used up.
func (g *runtime) eventBudget(over string) {
	limit := g.prog.Budget.EventsPerSecond
	if limit == 0 {
		return
	}
	m := g.mark()
	defer g.release(m)
	t := g.slot()
	g.call(asm.FnKtimeGetNs)
	g.store(t, asm.R0, 8)
	g.entry(check.BudgetMap, over)
	same := g.label()
	g.load(asm.R1, t, 8)
	g.emit(
		asm.LoadMem(asm.R2, asm.R0, budWindow, asm.DWord), asm.Mov.Reg(asm.R3, asm.R1),
		asm.Sub.Reg(asm.R3, asm.R2), asm.JLT.Imm(asm.R3, 1_000_000_000, same),
		asm.StoreMem(asm.R0, budWindow, asm.R1, asm.DWord), bpfasm.StoreImm(asm.R0, budEvents, 0, asm.DWord),
	)
	g.Label(same)
	g.emit(
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, budEvents),
		asm.LoadMem(asm.R1, asm.R0, budEvents, asm.DWord), asm.LoadImm(asm.R2, int64(limit), asm.DWord),
		asm.JGT.Reg(asm.R1, asm.R2, over),
	)
}

// count adds one to a counter, by a call of a function of the program: two instructions for
// each place that counts.
func (g *runtime) count(slot int) {
	g.usesFn["count"] = true
	g.emit(asm.Mov.Imm(asm.R1, int32(slot)), asm.Call.Label(".count"))
}

// countFunction generates int count(int slot).
func (g *runtime) countFunction() {
	g.note = "count"
	g.emit(funcMeta(asm.StoreMem(asm.R10, -4, asm.R1, asm.Word), "count", 1, btf.StaticFunc).WithSymbol(".count"))
	g.countStored()
}

// countStored adds one to the counter whose number is in the last four bytes of the frame, and
// ends the function.
func (g *runtime) countStored() {
	end := g.label()
	g.emit(
		asm.LoadMapPtr(asm.R1, 0).WithReference(check.StatsMap),
		asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, end),
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	)
	g.Label(end)
	g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// failed reports that the helper whose result is in R0 failed at a site, by a call of a function of
// the program. It clobbers R0 to R5.
func (g *runtime) failed(site uint32) {
	if site == 0 {
		return
	}
	g.usesFn["failed"] = true
	g.emit(asm.Mov.Imm(asm.R1, int32(site)), asm.Mov.Reg(asm.R2, asm.R0), asm.Call.Label(".failed"))
}

// failedFunction generates int failed(unsigned int site, int error), which writes an
// ir.FailureRecord. It counts one that finds no room as the ring's other events.
func (g *runtime) failedFunction() {
	lost := g.label()
	g.note = "failed"
	g.emit(
		funcMeta(asm.Mov.Reg(asm.R6, asm.R1), "failed", 2, btf.StaticFunc).WithSymbol(".failed"),
		asm.Mov.Reg(asm.R7, asm.R2), asm.LSh.Imm(asm.R7, 32), asm.ArSh.Imm(asm.R7, 32),
		asm.LoadMapPtr(asm.R1, 0).WithReference(g.prog.Failures.Name),
		asm.Mov.Imm(asm.R2, int32(unsafe.Sizeof(ir.FailureRecord{}))), asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, lost),
		asm.StoreMem(asm.R0, int16(unsafe.Offsetof(ir.FailureRecord{}.Site)), asm.R6, asm.DWord),
		asm.StoreMem(asm.R0, int16(unsafe.Offsetof(ir.FailureRecord{}.Error)), asm.R7, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R0), asm.Mov.Imm(asm.R2, 0),
		asm.FnRingbufSubmit.Call(),
		asm.Mov.Imm(asm.R0, 0), asm.Return(),
	)
	g.Label(lost)
	g.emit(bpfasm.StoreImm(asm.R10, -4, int32(g.lay.Lost(g.prog.Failures)), asm.Word))
	g.countStored()
}

// callback generates a function that a helper calls for every iteration of a loop. The
// function uses the caller's frame, so that the caller's variables stay in place. parent is
// the register with the caller's frame pointer; save stores the arguments.
func (g *statements) callback(name string, params int, parent asm.Register, save func(),
	body []*typed.Stmt,
) {
	m := g.mark()
	g.subs = append(g.subs, func() {
		was := g.fn
		g.frame.used, g.aux.used = m.frame, m.aux
		g.fn = &function{
			name: name, fp: asm.R6, ctx: asm.R7, scr: asm.R9, evnt: asm.R8, callback: true,
			exit: name + ".exit",
		}
		g.note = "loop body"
		g.emit(funcMeta(asm.Mov.Reg(asm.R6, parent), name[1:], params, btf.StaticFunc).WithSymbol(name))
		if g.usesFn["ctx"] {
			g.load(g.fn.ctx, loc{off: g.ctxSlot}, 8)
		}
		if g.usesFn["scratch"] {
			g.load(g.fn.scr, loc{off: g.scratchSlot}, 8)
		}
		save() // arguments may go to scratch memory
		next, end := g.label(), g.label()
		g.fn.loops = []loopLabels{{next, end}}
		g.block(body)
		g.Label(next)
		g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
		// a return from the action: set retSlot for the caller, then end the loop
		g.Label(g.fn.exit)
		g.storeImm(loc{off: g.retSlot}, 1, 8)
		g.Label(end)
		g.emit(asm.Mov.Imm(asm.R0, 1), asm.Return())
		g.flushCold()
		g.fn = was
	})
}

// subName returns a new name for a function of the program.
func (g *code) subName() string { return g.Unique(".loop") }

// funcPtr loads the address of a function.
func funcPtr(dst asm.Register, name string) asm.Instruction {
	return asm.Instruction{
		OpCode: asm.LoadImmOp(asm.DWord), Dst: dst, Src: asm.PseudoFunc, Constant: -1,
	}.WithReference(name)
}
