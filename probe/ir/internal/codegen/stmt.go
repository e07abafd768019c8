package codegen

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/bpfasm"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// block generates statements.
func (g *statements) block(list []*typed.Stmt) {
	for _, s := range list {
		m := g.mark()
		g.note = lineNote(s)
		g.stmt(s)
		g.release(m)
	}
}

// lineNote returns the source line that the verifier and bpftool show.
func lineNote(s *typed.Stmt) string {
	n := s.Line()
	if len(n) > 120 {
		n = n[:117] + "..."
	}
	if p := s.Pos.String(); p != "" {
		n += " // " + p
	}
	return n
}

func (g *statements) stmt(s *typed.Stmt) {
	g.site = s.Site
	switch s.Op {
	case ir.StmtLet:
		g.let(s)
	case ir.StmtIf:
		g.ifStmt(s)
	case ir.StmtLoop:
		g.loop(s)
	case ir.StmtForEach:
		g.forEach(s)
	case ir.StmtBreak:
		g.jump(g.fn.loops[len(g.fn.loops)-1].end)
	case ir.StmtContinue:
		g.jump(g.fn.loops[len(g.fn.loops)-1].next)
	case ir.StmtReturn:
		g.jump(g.fn.exit)
	case ir.StmtFind:
		g.find(s)
	case ir.StmtSet:
		g.set(s)
	case ir.StmtDelete:
		if check.Storage(s.Map) {
			g.storageDelete(s.Map)
			return
		}
		g.keyTo(s.Map, s.Key, asm.R2)
		g.mapCall(s.Map, asm.FnMapDeleteElem)
	case ir.StmtAdd:
		g.addTo(s)
	case ir.StmtAgg:
		g.aggregate(s)
	case ir.StmtEmit:
		g.emitEvent(s)
	case ir.StmtPacket:
		g.emitPacket(s)
	case ir.StmtSignal:
		g.scalar(s.X, asm.R1)
		if s.Thread {
			g.call(asm.FnSendSignalThread)
		} else {
			g.call(asm.FnSendSignal)
		}
		g.signalled(s.Site)
	case ir.StmtOverride:
		g.overrideReturn(s)
	case ir.StmtSkip:
		g.storeImm(loc{off: g.resultSlot}, 1, 8)
	case ir.StmtCookie:
		m := g.mark()
		x := g.settled(s.X)
		g.kfunc(check.KfuncCookie)
		x(asm.R1)
		g.emit(asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord))
		g.release(m)
	case ir.StmtTrace:
		g.trace(s)
	case ir.StmtExit:
		g.exitRequest(s)
	case ir.StmtEval:
		if s.X.Type.Scalar() {
			g.scalar(s.X, asm.R0)
		} else {
			g.operand(s.X)
		}
	}
}

// signalled reports that a signal was not sent.
func (g *statements) signalled(site uint32) {
	if site == 0 {
		return
	}
	bad, back := g.label(), g.label()
	g.emit(asm.JSLT.Imm(asm.R0, 0, bad))
	g.Label(back)
	g.later(bad, func() {
		g.failed(site)
		g.jump(back)
	})
}

// trace calls bpf_trace_printk, whose texts are at addresses of the kernel.
func (g *statements) trace(s *typed.Stmt) {
	var args []func(dst asm.Register)
	if s.X != nil {
		for _, a := range s.X.Args {
			if a.Type.Scalar() {
				args = append(args, g.settled(a))
				continue
			}
			at := g.operand(a)
			args = append(args, func(dst asm.Register) { g.addr(dst, at) })
		}
	}
	size := len(s.Text) + 1
	format := g.temp(size)
	g.constant(s.Text, format, size)
	g.addr(asm.R1, format)
	g.emit(asm.Mov.Imm(asm.R2, int32(size)))
	for i, load := range args {
		load(asm.R3 + asm.Register(i))
	}
	g.call(asm.FnTracePrintk)
}

// exitRequest stores the exit code, and then the request, which is read first.
func (g *statements) exitRequest(s *typed.Stmt) {
	if s.X != nil {
		g.scalar(s.X, asm.R0)
		g.control(asm.R1)
		g.emit(asm.StoreMem(asm.R1, ctlCode, asm.R0, asm.Word))
	} else {
		g.control(asm.R1)
	}
	g.emit(bpfasm.StoreImm(asm.R1, ctlExit, 1, asm.Word))
	if s.Off {
		g.emit(bpfasm.StoreImm(asm.R1, ctlDisabled, 1, asm.Word))
	}
}

func (g *statements) let(s *typed.Stmt) {
	h := g.homes[s.Var]
	g.assigned[s.Var] = true
	if !s.Var.Type.Scalar() {
		g.value(s.X, h.at)
		return
	}
	if h.inReg && s.X.Const() {
		g.imm(h.reg, s.X.Int)
		return
	}
	if !h.inReg && s.X.Const() && fitsImm(s.X.Int) {
		g.storeImm(h.at, int32(s.X.Int), 8)
		return
	}
	if h.inReg && s.X.Op == typed.Ctx && s.X.Place.Kind == typed.PlaceValue {
		g.ctxValue(s.X, h.reg)
		return
	}
	g.scalar(s.X, asm.R0)
	g.setVar(s.Var, asm.R0)
}

func (g *statements) ifStmt(s *typed.Stmt) {
	no, end := g.label(), g.label()
	g.branch(s.X, no, false)
	g.block(s.Body)
	if len(s.Else) > 0 {
		g.jump(end)
	}
	g.Label(no)
	g.block(s.Else)
	g.Label(end)
}

// forEach generates a call of bpf_for_each_map_elem(map, body, frame, 0).
func (g *statements) forEach(s *typed.Stmt) {
	g.markUnknown(s.Body)
	defer g.markUnknownAfter(s.Body)
	name := g.subName()
	g.callback(name, 4, asm.R4, func() {
		m := g.mark()
		defer g.release(m)
		var value loc
		spilled := s.Var != nil && s.Var2 != nil && g.inOne(g.homes[s.Var].at, s.Var.Type.Size)
		if spilled {
			value = g.slot()
			g.store(value, asm.R3, 8)
		}
		if s.Var != nil {
			g.setFrom(s.Var, asm.R2)
		}
		if spilled {
			g.load(asm.R3, value, 8)
		}
		if s.Var2 != nil {
			g.setFrom(s.Var2, asm.R3)
		}
	}, s.Body)
	g.emit(
		asm.LoadMapPtr(asm.R1, 0).WithReference(s.Map.Name), funcPtr(asm.R2, name),
		asm.Mov.Reg(asm.R3, g.fn.fp), asm.Mov.Imm(asm.R4, 0),
	)
	g.call(asm.FnForEachMapElem)
	g.afterCallback()
}

// setFrom sets a variable to the value at the address in a register.
func (g *statements) setFrom(v *ir.Var, ptr asm.Register) {
	if !v.Type.Scalar() {
		g.copyFrom(g.homes[v].at, ptr, v.Type.Size)
		return
	}
	g.emit(asm.LoadMem(asm.R0, ptr, 0, sizeOf(v.Type.Size)))
	if v.Type.Signed {
		g.extend(asm.R0, v.Type)
	}
	g.setVar(v, asm.R0)
}

// copyFrom copies from the address in a register, using R5. If the bytes are many, it clobbers R0 to R5.
func (g *runtime) copyFrom(to loc, ptr asm.Register, n int) {
	if g.inOne(to, n) {
		g.move(asm.R3, ptr)
		g.copyAt(to, n)
		return
	}
	for i := 0; i < n; {
		s := min(chunk(to.off+i, n-i), chunk(i, n-i), copyWidth(to))
		g.emit(asm.LoadMem(asm.R5, ptr, int16(i), sizeOf(s)))
		g.store(to.at(i), asm.R5, s)
		i += s
	}
}

// eventEnds returns the labels to jump to after an event and after a lost one, which is
// counted under the map. Events beyond the budget jump to done.
func (g *runtime) eventEnds(s *typed.Stmt) (done, lost string) {
	done, lost = g.label(), g.label()
	if g.prog.Budget.EventsPerSecond > 0 {
		over := g.label()
		g.eventBudget(over)
		g.later(over, func() {
			g.count(check.CntLimited)
			g.jump(done)
		})
	}
	g.later(lost, func() {
		g.count(g.lay.Lost(s.Map))
		g.jump(done)
	})
	return done, lost
}

// emitEvent writes an event directly into the ring, or into memory for a perf buffer. Events
// that do not fit are counted under the map.
func (g *statements) emitEvent(s *typed.Stmt) {
	done, lost := g.eventEnds(s)
	if s.Map.Kind == ir.MapPerf {
		at := g.operand(s.X)
		g.emit(asm.Mov.Reg(asm.R1, g.ctxReg()), asm.LoadMapPtr(asm.R2, 0).WithReference(s.Map.Name))
		g.emit(asm.LoadImm(asm.R3, 0xffffffff, asm.DWord)) // BPF_F_CURRENT_CPU
		g.addr(asm.R4, at)
		g.emit(asm.Mov.Imm(asm.R5, int32(s.Map.Value.Size)))
		g.call(asm.FnPerfEventOutput)
		g.emit(asm.JNE.Imm(asm.R0, 0, lost))
		g.Label(done)
		return
	}
	g.emit(
		asm.LoadMapPtr(asm.R1, 0).WithReference(s.Map.Name),
		asm.Mov.Imm(asm.R2, int32(s.Map.Value.Size)), asm.Mov.Imm(asm.R3, 0),
	)
	g.call(asm.FnRingbufReserve)
	g.emit(asm.JEq.Imm(asm.R0, 0, lost), asm.Mov.Reg(g.fn.evnt, asm.R0))
	g.value(s.X, loc{kind: inEvent})
	g.emit(asm.Mov.Reg(asm.R1, g.fn.evnt), asm.Mov.Imm(asm.R2, 0))
	g.call(asm.FnRingbufSubmit)
	g.Label(done)
}

// overrideReturn makes the probed function return a value of the program.
func (g *statements) overrideReturn(s *typed.Stmt) {
	if g.c.Pp.AttachType == ebpf.AttachModifyReturn {
		g.scalar(s.X, asm.R0)
		g.store(loc{off: g.resultSlot}, asm.R0, 8)
		return
	}
	g.scalar(s.X, asm.R2)
	g.emit(asm.Mov.Reg(asm.R1, g.ctxReg()))
	g.call(asm.FnOverrideReturn)
}
