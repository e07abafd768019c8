package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/loops"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// may_goto is chosen automatically from the oldest kernel on which it is tested.
var (
	mayGotoWorths = ir.Version{6, 12}
)

// loopsWalked is the first kernel whose verifier takes into account that the body of bpf_loop
// runs any number of times (ab5cfac139ab). Some older kernels have it from their stable
// branch.
var loopsWalked = ir.Version{6, 7}

const (
	// fewTurns is the largest number of turns for which a plain loop is worth its
	// verification.
	fewTurns = 8
	// mayGotoTurns is the number of turns after which may_goto checks the clock:
	// BPF_MAX_TIMED_LOOPS (include/linux/bpf.h).
	mayGotoTurns = 0xffff
	// mayGotoStack is what may_goto adds to a frame in bytes: its count, and since 6.15 the
	// time.
	mayGotoStack = 16
)

// These are the kernel functions of loops.Iter.
const (
	KfuncIterNew     = "bpf_iter_num_new"
	KfuncIterNext    = "bpf_iter_num_next"
	KfuncIterDestroy = "bpf_iter_num_destroy"
)

// loopForm returns how those loops of an action are compiled that are not plain.
func loopForm(p *ir.Program, c *check.Checked) loops.Form {
	if p.Loops != loops.Best {
		return p.Loops
	}
	switch {
	case !c.Kern.AtLeast(check.BpfLoopSince):
		return loops.Plain
	case c.Kern.AtLeast(mayGotoWorths) && turnsOf(c.Body) <= mayGotoTurns && simpleLoops(c.Body, 0):
		return loops.MayGoto
	}
	return loops.Helper
}

// fewBranches is the largest number of branches in the loops of an action for may_goto. The
// verifier keeps the paths through the body apart from turn to turn.
const fewBranches = 6

// simpleLoops reports whether no loop is over a map, and the bodies of the loops have only
// scalars and few branches. n is the number of loops around the statements.
func simpleLoops(list []*typed.Stmt, n int) bool {
	branches := 0
	for _, s := range list {
		inner := n
		switch s.Op {
		case ir.StmtForEach:
			return false
		case ir.StmtLoop:
			inner++
		}
		if !simpleLoops(s.Body, inner) || !simpleLoops(s.Else, inner) {
			return false
		}
		if n == 0 && inner == 0 {
			continue
		}
		simple := true
		typed.Walk([]*typed.Stmt{s}, func(s *typed.Stmt) {
			if s.Op != ir.StmtLet {
				branches++
			}
		}, func(e *typed.Node) {
			simple = simple && e.Type.Scalar()
			switch e.Op {
			case ir.OpLAnd, ir.OpLOr, ir.OpCond, ir.OpDiv, ir.OpMod, ir.OpMapGet, ir.OpMapHas, ir.OpMapCPU:
				branches++
			}
		})
		if !simple {
			return false
		}
	}
	return branches <= fewBranches
}

// turnsOf returns the largest number of turns that the loops of statements make together,
// counting for each the test that ends it. It is capped, at 1<<30, so as not to overflow.
func turnsOf(list []*typed.Stmt) int {
	n := 0
	for _, s := range list {
		inner := turnsOf(s.Body) + turnsOf(s.Else)
		if s.Op == ir.StmtLoop {
			inner = (s.Max + 1) * (inner + 1)
		}
		n = min(n+inner, 1<<30)
	}
	return n
}

// formOf returns how a loop is compiled. callback is set inside a callback.
func (g *statements) formOf(s *typed.Stmt, callback bool) loops.Form {
	switch {
	case s.Op == ir.StmtForEach:
		return loops.Helper
	case g.prog.Loops == loops.Best && s.Max <= fewTurns:
		return loops.Plain
	case g.loops == loops.Iter && callback:
		return loops.Helper // the iterator must be in the function's own frame
	}
	return g.loops
}

// loop generates a counted loop.
func (g *statements) loop(s *typed.Stmt) {
	switch g.formOf(s, g.fn.callback) {
	case loops.Helper:
		g.markUnknown(s.Body)
		g.loopHelper(s)
		g.markUnknownAfter(s.Body)
	case loops.Iter:
		g.markUnknown(s.Body)
		g.loopIter(s)
	case loops.MayGoto:
		if n := turnsOf(g.c.Body); n > mayGotoTurns {
			g.fail("loops by may_goto with %d iterations in all: the limit is %d", n, mayGotoTurns)
		}
		g.loopBack(s, true)
	default:
		g.loopBack(s, false)
	}
}

// loopBack generates a loop that branches back: a plain one, which the verifier walks turn by
// turn, or an open-coded one with may_goto, which it walks until the state no longer changes.
func (g *statements) loopBack(s *typed.Stmt, open bool) {
	m := g.mark()
	defer g.release(m)
	most := func(r asm.Register, end string) { g.emit(asm.JGE.Imm(r, int32(s.Max), end)) }
	if !s.X.Const() || s.X.Int != int64(s.Max) {
		n := g.slot()
		g.scalar(s.X, asm.R0)
		g.store(n, asm.R0, 8)
		most = func(r asm.Register, end string) {
			g.load(asm.R1, n, 8)
			g.emit(asm.JGE.Reg(r, asm.R1, end), asm.JGE.Imm(r, int32(s.Max), end))
		}
	}
	i := g.counter(s)
	g.assigned[i] = true
	g.imm(asm.R0, 0)
	g.setVar(i, asm.R0)
	if open {
		g.markUnknown(append([]*typed.Stmt{{Op: ir.StmtLet, Var: i}}, s.Body...))
	}
	top, next, end := g.label(), g.label(), g.label()
	g.Label(top)
	if open {
		g.emit(asm.JCOND.Label(end))
	}
	h := g.homes[i]
	if !h.inReg {
		g.readVar(i, asm.R0)
		h.reg = asm.R0
	}
	most(h.reg, end)
	if i != s.Var {
		g.setVar(s.Var, h.reg)
	}
	g.loopBody(s, next, end)
	g.Label(next)
	if !h.inReg {
		g.readVar(i, asm.R0)
	}
	g.emit(asm.Add.Imm(h.reg, 1))
	if !h.inReg {
		g.setVar(i, asm.R0)
	}
	g.jump(top)
	g.Label(end)
}

// counter returns the variable that counts a loop's turns: the loop's own, or a new one if
// the body sets that.
func (g *statements) counter(s *typed.Stmt) *ir.Var {
	set := false
	typed.Walk(s.Body, func(b *typed.Stmt) {
		set = set || b.Var == s.Var || b.Var2 == s.Var
	}, func(*typed.Node) {})
	if !set {
		return s.Var
	}
	i := &ir.Var{Name: "turn", Type: ir.IntType(4, false)}
	g.homes[i] = home{at: g.slot()}
	return i
}

// loopBody generates the body between a loop's labels.
func (g *statements) loopBody(s *typed.Stmt, next, end string) {
	g.fn.loops = append(g.fn.loops, loopLabels{next, end})
	g.block(s.Body)
	g.fn.loops = g.fn.loops[:len(g.fn.loops)-1]
}

// loopIter generates a loop that is open-coded with the kernel's iterator. The verifier
// requires that the iterator is destroyed on every path.
func (g *statements) loopIter(s *typed.Stmt) {
	m := g.mark()
	defer g.release(m)
	it, bound := g.slot(), g.label()
	call := func(name string) {
		g.addr(asm.R1, it)
		g.kernelCall(name)
	}
	g.scalar(s.X, asm.R3)
	g.emit(asm.JLE.Imm(asm.R3, int32(s.Max), bound), asm.Mov.Imm(asm.R3, int32(s.Max)))
	g.Label(bound)
	g.emit(asm.Mov.Imm(asm.R2, 0))
	call(KfuncIterNew)
	g.assigned[s.Var] = true
	top, end, leave := g.label(), g.label(), g.label()
	g.Label(top)
	call(KfuncIterNext)
	g.emit(asm.JEq.Imm(asm.R0, 0, end), asm.LoadMem(asm.R0, asm.R0, 0, asm.Word))
	g.setVar(s.Var, asm.R0)
	exit := g.fn.exit
	g.fn.exit = leave
	g.loopBody(s, top, end)
	g.fn.exit = exit
	g.jump(top)
	g.Label(leave) // a return from the action
	call(KfuncIterDestroy)
	g.jump(exit)
	g.Label(end)
	call(KfuncIterDestroy)
}

// loopHelper generates a call of bpf_loop(turns, body, frame, 0).
func (g *statements) loopHelper(s *typed.Stmt) {
	name := g.subName()
	g.callback(name, 2, asm.R2, func() {
		g.emit(asm.Mov.Reg32(asm.R1, asm.R1))
		g.setVar(s.Var, asm.R1)
	}, s.Body)
	l := g.label()
	g.scalar(s.X, asm.R1)
	g.emit(asm.JLE.Imm(asm.R1, int32(s.Max), l), asm.Mov.Imm(asm.R1, int32(s.Max)))
	g.Label(l)
	g.emit(funcPtr(asm.R2, name), asm.Mov.Reg(asm.R3, g.fn.fp), asm.Mov.Imm(asm.R4, 0))
	g.call(asm.FnLoop)
	g.afterCallback()
}

// afterCallback leaves the action if the loop's body returned from it.
func (g *runtime) afterCallback() {
	g.load(asm.R1, loc{off: g.retSlot}, 8)
	g.emit(asm.JNE.Imm(asm.R1, 0, g.fn.exit))
}

// markUnknown turns the variables that a loop's body changes into scalars with an unknown
// value for the verifier (mark_reg_unknown). Otherwise a variable that begins as a known
// number and decides a branch in the body has a different known number in every iteration.
// Newer verifiers then walk iteration by iteration, up to a million instructions. Older ones
// take the first iteration's number for all iterations and remove the other branch.
func (g *statements) markUnknown(body []*typed.Stmt) {
	var vars []*ir.Var
	seen := map[*ir.Var]bool{}
	typed.Walk(body, func(s *typed.Stmt) {
		if s.Op == ir.StmtLet && s.Var.Type.Scalar() && g.assigned[s.Var] && !seen[s.Var] &&
			s.Var.Type.Kind != ir.KindPtr {
			seen[s.Var] = true
			vars = append(vars, s.Var)
		}
	}, func(*typed.Node) {})
	if len(vars) == 0 {
		return
	}
	g.control(asm.R1)
	g.emit(asm.LoadMem(asm.R1, asm.R1, ctlZero, asm.DWord))
	for _, v := range vars {
		if h := g.homes[v]; h.inReg {
			g.emit(asm.Add.Reg(h.reg, asm.R1))
			continue
		}
		g.readVar(v, asm.R0)
		g.emit(asm.Add.Reg(asm.R0, asm.R1))
		g.setVar(v, asm.R0)
	}
}

// markUnknownAfter is markUnknown after a loop, where the verifier may assume that the body
// ran exactly once.
func (g *statements) markUnknownAfter(body []*typed.Stmt) {
	if !g.c.Kern.AtLeast(loopsWalked) {
		g.markUnknown(body)
	}
}
