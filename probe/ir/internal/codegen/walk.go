package codegen

import (
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/bpfasm"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// walkedStack stores the program counters of a user stack. The walker's state is in scratch
// memory. The top bits of its addresses describe how they were found, and are removed here.
func (g *runtime) walkedStack(e *typed.Node, to loc) {
	if g.busy != 0 {
		g.fail("internal error: walk with live registers %b", g.busy)
	}
	m := g.mark()
	defer g.release(m)
	w, frames := g.c.Walk, int(e.Int)+e.Skip
	state := loc{kind: inScratch, off: g.aux.used}
	g.aux.take((w.StateSize()+7)/8*8, 8)
	pcs := state.at(w.PCsOffset())
	g.zero(pcs, 8*frames)
	g.addr(asm.R1, state)
	g.emit(asm.Call.Label(bpfwalk.WalkFunc))
	// The walker may have dropped its last frame again: clear the slot after the last one.
	full := g.label()
	g.emit(
		asm.JGE.Imm(asm.R0, int32(frames), full), asm.LSh.Imm(asm.R0, 3),
		asm.Add.Reg(asm.R0, g.base(inScratch)), bpfasm.StoreImm(asm.R0, pcs.off, 0, asm.DWord),
	)
	g.Label(full)
	g.countWalk(state)
	for i := range int(e.Int) {
		g.load(asm.R0, pcs.at(8*(e.Skip+i)), 8)
		g.emit(asm.LSh.Imm(asm.R0, 2), asm.RSh.Imm(asm.R0, 2))
		g.storeHalves(to.at(8*i), asm.R0)
	}
}

// storeHalves stores 8 bytes, with the widths that copyWidth allows.
func (g *machine) storeHalves(to loc, r asm.Register) {
	if copyWidth(to) == 8 {
		g.store(to, r, 8)
		return
	}
	g.store(to, r, 4)
	g.emit(asm.RSh.Imm(r, 32))
	g.store(to.at(4), r, 4)
}

// countWalk counts a stack, and one that is not complete.
func (g *runtime) countWalk(state loc) {
	w := g.c.Walk
	unknown, broken, done := g.label(), g.label(), g.label()
	g.count(check.CntWalked)
	g.load(asm.R1, state.at(w.FlagsOffset()), 4)
	g.emit(asm.JSet.Imm(asm.R1, 1, unknown))
	g.load(asm.R1, state.at(w.EndOffset()), 4)
	for _, end := range []stack.StopReason{stack.StopBottom, stack.StopLimit, stack.StopNone} {
		g.emit(asm.JEq.Imm(asm.R1, int32(end), done))
	}
	g.jump(broken)
	g.Label(done)
	tally := func(l string, slot int) {
		g.later(l, func() {
			g.count(slot)
			g.jump(done)
		})
	}
	tally(unknown, check.CntUnwalked)
	tally(broken, check.CntBroken)
}

// walkFunctions adds the walker's functions, with the types that bpf_loop requires.
func (g *runtime) walkFunctions() {
	for _, in := range g.c.Walk.Instructions() {
		switch name := in.Symbol(); name {
		case bpfwalk.WalkFunc:
			g.note = "walk a user stack"
			in = funcMeta(in, name, 1, btf.StaticFunc)
		case bpfwalk.StepFunc:
			g.note = "go to the caller's frame"
			in = funcMeta(in, name, 2, btf.StaticFunc)
		}
		g.emit(in)
	}
}
