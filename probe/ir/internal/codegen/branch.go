package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// choose evaluates the ternary operator on scalars.
func (g *values) choose(e *typed.Node, dst asm.Register) {
	no, end := g.label(), g.label()
	g.branch(e.Args[0], no, false)
	g.scalar(e.Args[1], dst)
	g.jump(end)
	g.Label(no)
	g.scalar(e.Args[2], dst)
	g.Label(end)
}

// truthValue evaluates a condition to 1 or 0, or the opposite if inverted.
func (g *values) truthValue(e *typed.Node, dst asm.Register, inverted bool) {
	yes, end := g.label(), g.label()
	g.branch(e, yes, true)
	g.imm(dst, int64(eval.B2u(inverted)))
	g.jump(end)
	g.Label(yes)
	g.imm(dst, int64(eval.B2u(!inverted)))
	g.Label(end)
}

// branch jumps to target if the truth of e is when, and falls through otherwise.
func (g *values) branch(e *typed.Node, target string, when bool) {
	switch e.Op {
	case ir.OpConst:
		if (e.Int != 0) == when {
			g.jump(target)
		}
	case ir.OpLNot:
		g.branch(e.Args[0], target, !when)
	case ir.OpLAnd, ir.OpLOr:
		g.shortCircuit(e, target, when)
	case ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe:
		if e.Args[0].Type.Scalar() {
			g.compareJump(e, target, when)
		} else {
			g.memJump(e, target, when)
		}
	case ir.OpHasPrefix, ir.OpContains, ir.OpGlob, ir.OpStrncmp:
		g.textJump(e, target, when)
	case ir.OpMapHas:
		g.lookup(e.Map, e.Key())
		g.emit(jumpIf(when, asm.R0, target))
	default:
		x := e
		if e.Op == ir.OpCast && e.Type.Kind == ir.KindBool {
			x = e.Args[0]
		}
		if x.Op == ir.OpVar && g.homes[x.Var].inReg {
			g.emit(jumpIf(when, g.homes[x.Var].reg, target))
			return
		}
		r := g.target(x)
		g.scalar(x, r)
		g.emit(jumpIf(when, r, target))
	}
}

// target returns a free register to evaluate e into. It does not mark it busy.
func (g *values) target(e *typed.Node) asm.Register {
	was := g.busy
	r, ok := g.tmp()
	g.busy = was
	if !ok {
		g.fail("internal error: no register left")
	}
	return r
}

func jumpIf(nonzero bool, r asm.Register, target string) asm.Instruction {
	if nonzero {
		return asm.JNE.Imm(r, 0, target)
	}
	return asm.JEq.Imm(r, 0, target)
}

func (g *values) shortCircuit(e *typed.Node, target string, when bool) {
	if (e.Op == ir.OpLOr) == when { // one operand decides
		g.branch(e.Args[0], target, when)
		g.branch(e.Args[1], target, when)
		return
	}
	skip := g.label()
	g.branch(e.Args[0], skip, !when)
	g.branch(e.Args[1], target, when)
	g.Label(skip)
}

// compareJump is branch for a comparison of scalars.
func (g *values) compareJump(e *typed.Node, target string, when bool) {
	op := jumpOp(e, when)
	a, b := e.Args[0], e.Args[1]
	var ra asm.Register
	if a.Op == ir.OpVar && g.homes[a.Var].inReg {
		ra = g.homes[a.Var].reg
	}
	if b.Const() && fitsImm(b.Int) {
		if ra == 0 {
			ra = g.target(a)
			g.scalar(a, ra)
		}
		g.emit(op.Imm(ra, int32(b.Int), target))
		return
	}
	if b.Op == ir.OpVar && g.homes[b.Var].inReg {
		if ra == 0 {
			ra = g.target(a)
			g.scalar(a, ra)
		}
		g.emit(op.Reg(ra, g.homes[b.Var].reg, target))
		return
	}
	dst := g.target(a)
	g.twoOperands(a, b, dst, func(t asm.Register) { g.emit(op.Reg(dst, t, target)) })
}

// jumpOp returns the jump for a comparison, or for its opposite.
func jumpOp(e *typed.Node, when bool) asm.JumpOp {
	op := e.Op
	if !when {
		op = map[ir.Op]ir.Op{
			ir.OpEq: ir.OpNe, ir.OpNe: ir.OpEq, ir.OpLt: ir.OpGe, ir.OpGe: ir.OpLt,
			ir.OpGt: ir.OpLe, ir.OpLe: ir.OpGt,
		}[op]
	}
	signed := e.Args[0].Type.Kind == ir.KindInt && e.Args[0].Type.Signed
	switch op {
	case ir.OpEq:
		return asm.JEq
	case ir.OpNe:
		return asm.JNE
	case ir.OpLt:
		if signed {
			return asm.JSLT
		}
		return asm.JLT
	case ir.OpLe:
		if signed {
			return asm.JSLE
		}
		return asm.JLE
	case ir.OpGt:
		if signed {
			return asm.JSGT
		}
		return asm.JGT
	}
	if signed {
		return asm.JSGE
	}
	return asm.JGE
}
