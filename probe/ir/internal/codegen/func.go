package codegen

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// Offsets in the control map's one value.
const (
	ctlDisabled = 0  // u32: not zero does nothing
	ctlSelf     = 4  // u32: the tracer's own process
	ctlStart    = 8  // u64: CLOCK_MONOTONIC at load
	ctlExit     = 16 // u32: set by StmtExit
	ctlCode     = 20 // s32: what it was given
	ctlNSDev    = 24 // u64: device and inode of the loader's pid namespace
	ctlNSIno    = 32
	ctlTAI      = 40 // s64: CLOCK_TAI less CLOCK_MONOTONIC at load
	ctlCPUs     = 48 // u32: possible CPUs
	ctlZero     = 56 // u64: always 0, which the verifier does not know
)

// Offsets in the budget map's value, of one CPU.
const (
	budWindow = 0  // u64: start of the current second
	budEvents = 8  // u64: events emitted in it
	budStart  = 16 // u64: start of the current CPU window
	budUsed   = 24 // u64: nanoseconds used in it
)

// cpuWindow is the window in which CPUPercent is measured, in nanoseconds.
const cpuWindow = 100_000_000

// control loads the control value's address.
func (g *runtime) control(dst asm.Register) {
	g.emit(asm.LoadMapValue(dst, 0, 0).WithReference(check.CtlMap))
}

// prologue is what runs before the action.
func (g *runtime) prologue() {
	n := len(g.insns)
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
	g.insns[n] = funcMeta(g.insns[n], g.fn.name, 1, btf.GlobalFunc).WithSymbol(g.fn.name)
	g.cpuBudgetEnter()
	if g.usesFn["scratch"] {
		g.acquire()
	}
}

// filtersSelf says whether the tracer's own process is left out here: not where
// the program runs on nobody's behalf.
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

// epilogue is what runs after it, also after an early return.
func (g *runtime) epilogue() {
	g.place(".exit")
	if g.usesFn["scratch"] {
		g.releaseScratch()
		g.place(".level")
	}
	g.cpuBudgetLeave()
	if g.resultSlot != 0 {
		g.load(asm.R0, loc{off: g.resultSlot}, 8)
		g.emit(asm.Return())
	}
	g.place(".out")
	g.emit(asm.Mov.Imm(asm.R0, kernel.Idle(g.c.Pp.Type)), asm.Return())
}

// atomics says whether the kernel and its JIT have atomic exchange.
func (g *runtime) atomics() bool {
	if g.plan.Arch == "arm64" {
		return g.c.Kern.AtLeast(arm64Atomics)
	}
	return g.c.Kern.AtLeast(atomicsSince)
}

// entry looks up element 0 of an array, or jumps.
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

// acquire finds a scratch area that no program below this one on this CPU
// uses. The first word of an area says that it is in use; it is claimed by an
// atomic exchange, so that programs that preempt each other may leave in any
// order. Kernels without that run programs without preemption: what comes between
// reading the word and writing it is an interrupt, which has left the area again.
func (g *runtime) acquire() {
	got := g.label()
	g.claim(0, got)
	g.place(got)
	g.emit(asm.Mov.Reg(g.fn.scr, asm.R0), asm.Add.Imm(g.fn.scr, check.ScratchUsed))
	if g.usesFn["callbacks"] {
		g.store(loc{off: g.scratchSlot}, g.fn.scr, 8)
	}
}

// claim tries to take an area, those behind it otherwise, which seldom happens,
// and goes on at got with its address in R0.
func (g *runtime) claim(level int32, got string) {
	m := g.mark()
	taken, key := g.label(), g.slot()
	g.storeImm(key, level, 4)
	g.emit(asm.LoadMapPtr(asm.R1, 0).WithReference(check.ScratchMap))
	g.addr(asm.R2, key)
	g.call(asm.FnMapLookupElem)
	g.release(m)
	g.emit(asm.JEq.Imm(asm.R0, 0, ".level"))
	if g.atomics() {
		g.emit(asm.Mov.Imm(asm.R1, 1), Atomic(asm.Xchg, asm.R0, asm.R1, 0), asm.JNE.Imm(asm.R1, 0, taken))
	} else {
		g.emit(asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.JNE.Imm(asm.R1, 0, taken),
			storeImm(asm.R0, 0, 1, asm.DWord))
	}
	if level > 0 {
		g.jump(got)
	}
	g.later(taken, func() {
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
	g.emit(storeImm(g.fn.scr, -check.ScratchUsed, 0, asm.DWord))
}

// cpuBudgetEnter leaves the program where its share of the CPU is used up.
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
		asm.StoreMem(asm.R0, budStart, asm.R1, asm.DWord), storeImm(asm.R0, budUsed, 0, asm.DWord),
	)
	g.place(same)
	limit := int32(min(g.prog.Budget.CPUPercent, 100) / 100 * cpuWindow)
	g.emit(asm.LoadMem(asm.R2, asm.R0, budUsed, asm.DWord), asm.JGT.Imm(asm.R2, limit, over))
	g.later(over, func() {
		g.count(check.CntThrottled)
		g.jump(".out")
	})
}

// cpuBudgetLeave adds what this run took.
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

// eventBudget jumps to over where the second's events are used up.
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
		asm.StoreMem(asm.R0, budWindow, asm.R1, asm.DWord), storeImm(asm.R0, budEvents, 0, asm.DWord),
	)
	g.place(same)
	g.emit(
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, budEvents),
		asm.LoadMem(asm.R1, asm.R0, budEvents, asm.DWord), asm.LoadImm(asm.R2, int64(limit), asm.DWord),
		asm.JGT.Reg(asm.R1, asm.R2, over),
	)
}

// count adds one to a counter, by a call of a function of our own.
func (g *runtime) count(slot int) {
	g.usesFn["count"] = true
	g.emit(asm.Mov.Imm(asm.R1, int32(slot)), asm.Call.Label(".count"))
}

// countFunction is int count(int slot).
func (g *runtime) countFunction() {
	end := g.label()
	g.note = "count"
	first := funcMeta(asm.StoreMem(asm.R10, -4, asm.R1, asm.Word), "count", 1,
		btf.StaticFunc).WithSymbol(".count")
	g.emit(
		first,
		asm.LoadMapPtr(asm.R1, 0).WithReference(check.StatsMap),
		asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, end),
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	)
	g.place(end)
	g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// callback generates a function that a helper calls for every turn of a loop.
// The frame is the caller's, so that its variables are where they were; parent
// is the register with the caller's frame pointer, save stores the arguments.
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
		save()
		if g.usesFn["ctx"] {
			g.load(g.fn.ctx, loc{off: g.ctxSlot}, 8)
		}
		if g.usesFn["scratch"] {
			g.load(g.fn.scr, loc{off: g.scratchSlot}, 8)
		}
		next, end := g.label(), g.label()
		g.fn.loops = []loopLabels{{next, end}}
		g.block(body)
		g.place(next)
		g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
		// return out of the action: tell the caller, then end the loop
		g.place(g.fn.exit)
		g.storeImm(loc{off: g.retSlot}, 1, 8)
		g.place(end)
		g.emit(asm.Mov.Imm(asm.R0, 1), asm.Return())
		g.flushCold()
		g.fn = was
	})
}

// subName is a name for a function of the program.
func (g *code) subName() string {
	g.nlabel++
	return fmt.Sprintf(".loop%d", g.nlabel)
}

// funcPtr loads the address of a function.
func funcPtr(dst asm.Register, name string) asm.Instruction {
	return asm.Instruction{
		OpCode: asm.LoadImmOp(asm.DWord), Dst: dst, Src: asm.PseudoFunc, Constant: -1,
	}.WithReference(name)
}
