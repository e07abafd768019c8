package action

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// LoopForm is a way to compile counted loops. All compute the same; they differ in
// what they cost and in what the kernel must have.
type LoopForm uint8

// The forms.
const (
	// LoopsBest takes, of what the kernel has, what runs fastest and is sure to be
	// verified: LoopsPlain for up to 8 turns, then LoopsMayGoto from Linux 6.12 on,
	// where the loops of an action make at most 65,535 turns in all, none is over a
	// map, and their bodies are of numbers with few branches, then LoopsHelper.
	LoopsBest LoopForm = iota
	// LoopsPlain branches back. Every kernel has it, but its verifier walks every
	// turn: at most 4096, and fewer with a body of many instructions.
	LoopsPlain
	// LoopsHelper has bpf_loop call the body (5.17). Variables are then in memory.
	LoopsHelper
	// LoopsIter branches back after asking the kernel's iterator of numbers
	// (bpf_iter_num_next, 6.4), by a call in every turn. It needs BTF and a licence
	// that is compatible with the GPL.
	LoopsIter
	// LoopsMayGoto branches back over an instruction that bounds the turns
	// (may_goto, 6.9). The kernel counts them for all loops of an action together,
	// and so Compile refuses loops of more than 65,535 turns in all: beyond, newer
	// kernels (6.15) end a loop after a quarter of a second. A turn takes half the
	// time that it takes with LoopsHelper (BenchmarkLoops: 2.4 ns and 5.0 ns, 3.5 ns
	// with LoopsIter), but the verifier may give up on bodies of many branches, such
	// as operations on text, which it accepts in the other forms.
	LoopsMayGoto
	numLoopForms
)

var loopFormNames = [numLoopForms]string{"best", "plain", "bpf_loop", "bpf_iter_num", "may_goto"}

// String is the form's name.
func (f LoopForm) String() string {
	if f < numLoopForms {
		return loopFormNames[f]
	}
	return "invalid"
}

// The first kernels with each form, and the one from which may_goto is chosen
// without being asked for: the oldest on which it is tested.
var (
	bpfLoopSince  = Version{5, 17}
	iterNumSince  = Version{6, 4}
	mayGotoSince  = Version{6, 9}
	mayGotoWorths = Version{6, 12}
)

// loopsWalked is the first kernel whose verifier takes into account that the body
// of bpf_loop runs any number of times (ab5cfac139ab); some older ones have it
// from their stable branch.
var loopsWalked = Version{6, 7}

const (
	// maxLoop bounds a loop's turns: BPF_MAX_LOOPS of bpf_loop (kernel/bpf/bpf_iter.c).
	maxLoop = 1 << 23
	// maxPlain bounds a loop's turns where the verifier walks every turn.
	maxPlain = 4096
	// fewTurns is up to how many turns a plain loop is worth its verification.
	fewTurns = 8
	// mayGotoTurns is how often may_goto goes on before it looks at the clock:
	// BPF_MAX_TIMED_LOOPS (include/linux/bpf.h).
	mayGotoTurns = 0xffff
	// mayGotoStack is what may_goto adds to a frame: its count, and since 6.15 the time.
	mayGotoStack = 16
)

// The kernel functions of LoopsIter.
const (
	kfuncIterNew     = "bpf_iter_num_new"
	kfuncIterNext    = "bpf_iter_num_next"
	kfuncIterDestroy = "bpf_iter_num_destroy"
)

// turns checks that the plan's kernel has the program's form of loops, and that
// it can make a loop of that many turns.
func (c *checker) turns(n int) error {
	form, since := c.prog.Loops, Version{}
	switch form {
	case LoopsBest, LoopsPlain:
	case LoopsHelper:
		since = bpfLoopSince
	case LoopsIter:
		since = iterNumSince
	case LoopsMayGoto:
		since = mayGotoSince
	default:
		return fmt.Errorf("no such form of loops: %d", form)
	}
	if !c.kern.AtLeast(since) {
		return unsupported("loop by "+form.String(), since, "Linux "+c.plan.Kernel+" is too old")
	}
	if n > maxLoop {
		return fmt.Errorf("loop of %d turns: at most %d", n, maxLoop)
	}
	if n <= maxPlain || form != LoopsPlain && c.kern.AtLeast(bpfLoopSince) {
		return nil
	}
	if form == LoopsPlain && c.kern.AtLeast(bpfLoopSince) {
		return fmt.Errorf("plain loop of %d turns: at most %d", n, maxPlain)
	}
	return unsupported(fmt.Sprintf("loop of more than %d turns", maxPlain), bpfLoopSince, "Linux "+c.plan.Kernel+" is too old")
}

// loopForm is how the loops of an action are compiled that are not plain.
func loopForm(p *Program, c *checked) LoopForm {
	if p.Loops != LoopsBest {
		return p.Loops
	}
	switch {
	case !c.kern.AtLeast(bpfLoopSince):
		return LoopsPlain
	case c.kern.AtLeast(mayGotoWorths) && turnsOf(c.body) <= mayGotoTurns && simpleLoops(c.body, 0):
		return LoopsMayGoto
	}
	return LoopsHelper
}

// fewBranches is how many branches the loops of an action may have for may_goto:
// the verifier keeps the ways through the body apart from turn to turn.
const fewBranches = 6

// simpleLoops says whether no loop is over a map and the bodies of loops, n deep
// inside of which the statements stand, are of numbers with few branches.
func simpleLoops(list []*Stmt, n int) bool {
	branches := 0
	for _, s := range list {
		inner := n
		switch s.Op {
		case StmtForEach:
			return false
		case StmtLoop:
			inner++
		}
		if !simpleLoops(s.Body, inner) || !simpleLoops(s.Else, inner) {
			return false
		}
		if n == 0 && inner == 0 {
			continue
		}
		simple := true
		walkStmts([]*Stmt{s}, func(s *Stmt) {
			if s.Op != StmtLet {
				branches++
			}
		}, func(e *Expr) {
			simple = simple && e.Type.Scalar()
			switch e.Op {
			case OpLAnd, OpLOr, OpCond, OpDiv, OpMod, OpMapGet, OpMapHas, OpMapCPU:
				branches++
			}
		})
		if !simple {
			return false
		}
	}
	return branches <= fewBranches
}

// turnsOf is the most turns that the loops of statements make together, each with
// the test that ends it; no more than about what overflows is told apart.
func turnsOf(list []*Stmt) int {
	n := 0
	for _, s := range list {
		inner := turnsOf(s.Body) + turnsOf(s.Else)
		if s.Op == StmtLoop {
			inner = (s.Max + 1) * (inner + 1)
		}
		n = min(n+inner, 1<<30)
	}
	return n
}

// formOf is how a loop is compiled, in a callback or not.
func (g *gen) formOf(s *Stmt, callback bool) LoopForm {
	switch {
	case s.Op == StmtForEach:
		return LoopsHelper
	case g.prog.Loops == LoopsBest && s.Max <= fewTurns:
		return LoopsPlain
	case g.loops == LoopsIter && callback:
		return LoopsHelper // the iterator has to be in the function's own frame
	}
	return g.loops
}

// loop generates a counted loop.
func (g *gen) loop(s *Stmt) {
	switch g.formOf(s, g.fn.callback) {
	case LoopsHelper:
		g.forget(s.Body)
		g.loopHelper(s)
		g.forgetAfter(s.Body)
	case LoopsIter:
		g.forget(s.Body)
		g.loopIter(s)
	case LoopsMayGoto:
		if n := turnsOf(g.c.body); n > mayGotoTurns {
			g.fail("loops by may_goto of %d turns in all: at most %d", n, mayGotoTurns)
		}
		g.loopBack(s, true)
	default:
		g.loopBack(s, false)
	}
}

// loopBack generates a loop that branches back: plain, which the verifier walks
// turn by turn, or open-coded with may_goto, which it walks until nothing changes.
func (g *gen) loopBack(s *Stmt, open bool) {
	m := g.mark()
	defer g.release(m)
	most := func(r asm.Register, end string) { g.emit(asm.JGE.Imm(r, int32(s.Max), end)) }
	if !isConst(s.X) || s.X.Int != int64(s.Max) {
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
		g.forget(append([]*Stmt{{Op: StmtLet, Var: i}}, s.Body...))
	}
	top, next, end := g.label(), g.label(), g.label()
	g.place(top)
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
	g.place(next)
	if !h.inReg {
		g.readVar(i, asm.R0)
	}
	g.emit(asm.Add.Imm(h.reg, 1))
	if !h.inReg {
		g.setVar(i, asm.R0)
	}
	g.jump(top)
	g.place(end)
}

// counter is what counts a loop's turns: its variable, or one of its own where
// the body sets that.
func (g *gen) counter(s *Stmt) *Var {
	set := false
	walkStmts(s.Body, func(b *Stmt) { set = set || b.Var == s.Var || b.Var2 == s.Var }, func(*Expr) {})
	if !set {
		return s.Var
	}
	i := &Var{Name: "turn", Type: u32}
	g.homes[i] = home{at: g.slot()}
	return i
}

// loopBody generates what stands between a loop's labels.
func (g *gen) loopBody(s *Stmt, next, end string) {
	g.fn.loops = append(g.fn.loops, loopLabels{next, end})
	g.block(s.Body)
	g.fn.loops = g.fn.loops[:len(g.fn.loops)-1]
}

// loopIter generates a loop that is open-coded with the kernel's iterator, which
// has to be destroyed on every way out.
func (g *gen) loopIter(s *Stmt) {
	m := g.mark()
	defer g.release(m)
	it, bound := g.slot(), g.label()
	call := func(name string) {
		g.addr(asm.R1, it)
		g.kernelCall(name)
	}
	g.scalar(s.X, asm.R3)
	g.emit(asm.JLE.Imm(asm.R3, int32(s.Max), bound), asm.Mov.Imm(asm.R3, int32(s.Max)))
	g.place(bound)
	g.emit(asm.Mov.Imm(asm.R2, 0))
	call(kfuncIterNew)
	g.assigned[s.Var] = true
	top, end, leave := g.label(), g.label(), g.label()
	g.place(top)
	call(kfuncIterNext)
	g.emit(asm.JEq.Imm(asm.R0, 0, end), asm.LoadMem(asm.R0, asm.R0, 0, asm.Word))
	g.setVar(s.Var, asm.R0)
	exit := g.fn.exit
	g.fn.exit = leave
	g.loopBody(s, top, end)
	g.fn.exit = exit
	g.jump(top)
	g.place(leave) // return out of the action
	call(kfuncIterDestroy)
	g.jump(exit)
	g.place(end)
	call(kfuncIterDestroy)
}

// loopHelper calls bpf_loop(turns, body, frame, 0).
func (g *gen) loopHelper(s *Stmt) {
	name := g.subName()
	g.callback(name, 2, asm.R2, func() {
		g.emit(asm.Mov.Reg32(asm.R1, asm.R1))
		g.setVar(s.Var, asm.R1)
	}, s.Body)
	l := g.label()
	g.scalar(s.X, asm.R1)
	g.emit(asm.JLE.Imm(asm.R1, int32(s.Max), l), asm.Mov.Imm(asm.R1, int32(s.Max)))
	g.place(l)
	g.emit(funcPtr(asm.R2, name), asm.Mov.Reg(asm.R3, g.fn.fp), asm.Mov.Imm(asm.R4, 0))
	g.call(asm.FnLoop)
	g.afterCallback()
}

// afterCallback leaves the action where the loop's body said so.
func (g *gen) afterCallback() {
	g.load(asm.R1, loc{off: g.retSlot}, 8)
	g.emit(asm.JNE.Imm(asm.R1, 0, g.fn.exit))
}

// forget makes the verifier forget the numbers that variables hold which a loop's
// body changes. A variable that begins as a known number and decides a branch in
// the body has a different known number in every turn: newer verifiers then walk
// turn by turn, up to a million instructions, and older ones take the first
// turn's number for that of all and remove the other branch.
func (g *gen) forget(body []*Stmt) {
	var vars []*Var
	seen := map[*Var]bool{}
	walkStmts(body, func(s *Stmt) {
		if s.Op == StmtLet && s.Var.Type.Scalar() && g.assigned[s.Var] && !seen[s.Var] && s.Var.Type.Kind != KindPtr {
			seen[s.Var] = true
			vars = append(vars, s.Var)
		}
	}, func(*Expr) {})
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

// forgetAfter is forget behind a loop, where the verifier may believe that the
// body ran exactly once.
func (g *gen) forgetAfter(body []*Stmt) {
	if !g.c.kern.AtLeast(loopsWalked) {
		g.forget(body)
	}
}
