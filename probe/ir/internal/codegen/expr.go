package codegen

import (
	"math"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// hasCall reports whether evaluating e calls a helper, or may need the registers that a call
// clobbers.
func (g *values) hasCall(e *typed.Node) bool {
	if v, ok := g.calls[e]; ok {
		return v
	}
	v := g.findCall(e)
	g.calls[e] = v
	return v
}

func (g *values) findCall(e *typed.Node) bool {
	switch e.Op {
	case ir.OpBuiltin:
		return e.Str != "ctx"
	case typed.Load, ir.OpStr, ir.OpBuf, ir.OpMapGet, ir.OpMapHas, ir.OpMapCPU, ir.OpKstack,
		ir.OpUstack, ir.OpUstackWalk, ir.OpIndex, ir.OpSocketCookie, ir.OpPath,
		ir.OpHasPrefix, ir.OpContains, ir.OpIndexOf, ir.OpGlob, ir.OpLen, ir.OpStrncmp, ir.OpMemcmp:
		return true
	case ir.OpElem:
		_, ok := g.inMemory(e)
		return !ok
	}
	for _, a := range e.Args {
		if !a.Type.Scalar() || g.hasCall(a) {
			return true
		}
	}
	return false
}

// scalar evaluates e into dst, a caller-saved register that is not busy.
func (g *values) scalar(e *typed.Node, dst asm.Register) {
	switch e.Op {
	case ir.OpConst:
		g.imm(dst, e.Int)
	case ir.OpVar:
		g.readVar(e.Var, dst)
	case ir.OpVarAddr:
		g.addr(dst, g.homes[e.Var].at)
		g.numbered(dst)
	case ir.OpBuiltin:
		g.builtin(e, dst)
	case typed.Ctx:
		g.ctxValue(e, dst)
	case typed.Load:
		g.loadMemory(e, dst)
	case ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpMod, ir.OpAnd, ir.OpOr, ir.OpXor, ir.OpShl,
		ir.OpShr:
		g.binary(e, dst)
	case ir.OpCast:
		g.castTo(e, dst)
	case ir.OpBswap:
		g.scalar(e.Args[0], dst)
		g.emit(asm.HostTo(asm.BE, dst, sizeOf(e.Type.Size)))
		if e.Type.Signed {
			g.extend(dst, e.Type)
		}
	case ir.OpCond:
		g.choose(e, dst)
	case ir.OpElem:
		g.scalarElem(e, dst)
	case ir.OpMapGet:
		g.mapGet(e, dst)
	case ir.OpMapCPU:
		g.mapCPU(e, dst)
	case ir.OpIndex:
		g.valueIndex(e, dst)
	case ir.OpSocketCookie:
		g.socketCookie(e, dst)
	case ir.OpIndexOf:
		g.indexOf(e, dst)
	case ir.OpMemcmp:
		g.memcmp(e, dst)
	case ir.OpLen:
		g.textLen(e, dst)
	case ir.OpStrncmp:
		g.truthValue(e, dst, true)
	default:
		g.truthValue(e, dst, false)
	}
}

// imm loads a constant.
func (g *code) imm(dst asm.Register, v int64) {
	if fitsImm(v) {
		g.emit(asm.Mov.Imm(dst, int32(v)))
		return
	}
	g.emit(asm.LoadImm(dst, v, asm.DWord))
}

func fitsImm(v int64) bool { return v >= math.MinInt32 && v <= math.MaxInt32 }

func (g *machine) readVar(v *ir.Var, dst asm.Register) {
	h := g.homes[v]
	if h.inReg {
		g.emit(asm.Mov.Reg(dst, h.reg))
		return
	}
	g.load(dst, h.at, 8)
}

// setVar stores a scalar in canonical form.
func (g *machine) setVar(v *ir.Var, src asm.Register) {
	h := g.homes[v]
	if h.inReg {
		if h.reg != src {
			g.emit(asm.Mov.Reg(h.reg, src))
		}
		return
	}
	g.store(h.at, src, 8)
}

// extend sign- or zero-extends a register from a type's width to 64 bits, the form in which
// registers and slots hold scalars. It ignores the upper bits.
func (g *code) extend(r asm.Register, t ir.Type) {
	switch {
	case t.Size == 8:
	case t.Signed && t.Kind == ir.KindInt:
		g.emit(asm.LSh.Imm(r, int32(64-8*t.Size)), asm.ArSh.Imm(r, int32(64-8*t.Size)))
	case t.Size == 4:
		g.emit(asm.Mov.Reg32(r, r))
	default:
		g.emit(asm.And.Imm(r, int32(1)<<(8*t.Size)-1))
	}
}

// castTo converts between scalars.
func (g *values) castTo(e *typed.Node, dst asm.Register) {
	a := e.Args[0]
	if e.Type.Kind == ir.KindBool {
		g.truthValue(e, dst, false)
		return
	}
	if !a.Type.Scalar() {
		m := g.mark()
		g.loadAny(dst, g.operand(a), e.Type)
		g.release(m)
		return
	}
	g.scalar(a, dst)
	if a.Type.Kind == ir.KindPtr && e.Type.Kind == ir.KindInt {
		g.toScalar(dst)
	}
	if !holds(e.Type, a.Type) {
		g.extend(dst, e.Type)
	}
}

// holds reports whether a canonical value of type from is also canonical for type to.
func holds(to, from ir.Type) bool {
	if to.Size == 8 || from.Kind == ir.KindBool {
		return true
	}
	if to.Signed == from.Signed {
		return to.Size >= from.Size
	}
	return to.Signed && to.Size > from.Size
}

// binary evaluates a binary operation on integers.
func (g *values) binary(e *typed.Node, dst asm.Register) {
	a, b := e.Args[0], e.Args[1]
	if e.Type.Kind == ir.KindPtr && a.Type.Kind == ir.KindPtr && b.Const() && fitsImm(b.Int) {
		g.scalar(a, dst)
		g.toScalar(dst)
		g.emit(asm.Add.Imm(dst, int32(b.Int)))
		return
	}
	if b.Const() {
		if g.binaryImm(e, dst) {
			return
		}
	}
	if a.Const() && commutes(e.Op) {
		if g.binaryImm(&typed.Node{Op: e.Op, Type: e.Type, Args: []*typed.Node{b, a}}, dst) {
			return
		}
	}
	if b.Op == ir.OpVar && g.homes[b.Var].inReg && !clobbers(e) {
		g.scalar(a, dst)
		g.alu(e, dst, g.homes[b.Var].reg)
		return
	}
	g.twoOperands(a, b, dst, func(t asm.Register) { g.alu(e, dst, t) })
}

func commutes(op ir.Op) bool {
	switch op {
	case ir.OpAdd, ir.OpMul, ir.OpAnd, ir.OpOr, ir.OpXor:
		return true
	}
	return false
}

// clobbers reports whether alu changes its second operand.
func clobbers(e *typed.Node) bool {
	switch e.Op {
	case ir.OpShl, ir.OpShr:
		return true
	case ir.OpDiv, ir.OpMod:
		return e.Type.Signed
	}
	return false
}

// twoOperands evaluates a into dst and b into another register, which it passes to use. At
// least three registers must be free on entry, dst among them. It leaves as many for the
// evaluation of b: if there are no more, it keeps a in the frame meanwhile.
func (g *values) twoOperands(a, b *typed.Node, dst asm.Register, use func(t asm.Register)) {
	m := g.mark()
	defer g.release(m)
	was := g.busy
	defer func() { g.busy = was }()
	other := func() asm.Register {
		g.hold(dst)
		t, ok := g.tmp()
		if !ok {
			g.fail("internal error: no register left")
		}
		g.busy = was
		return t
	}
	switch {
	case g.hasCall(b) && !g.hasCall(a):
		t := other()
		g.scalar(b, t)
		g.hold(t)
		g.scalar(a, dst)
		g.hold(dst)
		use(t)
	case g.hasCall(b) || g.freeRegs() <= 3:
		s := g.slot()
		g.scalar(a, dst)
		g.store(s, dst, 8)
		t := other()
		g.scalar(b, t)
		g.load(dst, s, 8)
		g.busy |= 1<<t | 1<<dst
		use(t)
	default:
		g.scalar(a, dst)
		t := other()
		g.hold(dst)
		g.scalar(b, t)
		g.hold(t)
		use(t)
	}
}

// freeRegs counts the caller-saved registers that hold no live value.
func (g *machine) freeRegs() int {
	n := 0
	for r := asm.R0; r <= asm.R5; r++ {
		if !g.busy.has(r) {
			n++
		}
	}
	return n
}

// binaryImm evaluates an operation with a constant second operand. It reports whether it
// could.
func (g *values) binaryImm(e *typed.Node, dst asm.Register) bool {
	a, k := e.Args[0], e.Args[1].Int
	switch e.Op {
	case ir.OpDiv, ir.OpMod:
		if e.Type.Signed {
			if k <= 0 || !fitsImm(k) {
				return false
			}
			g.scalar(a, dst)
			g.signedDivImm(e, dst, int32(k))
			return true
		}
		if k == 0 {
			g.scalar(a, dst)
			if e.Op == ir.OpDiv {
				g.imm(dst, 0)
			}
			return true
		}
	case ir.OpShl, ir.OpShr:
		k &= int64(8*e.Type.Size - 1)
	}
	if !fitsImm(k) {
		return false
	}
	g.scalar(a, dst)
	op := aluOps[e.Op]
	if e.Op == ir.OpShr && e.Type.Signed {
		op = asm.ArSh
	}
	if e.Type.Size == 4 && !e.Type.Signed && e.Op != ir.OpDiv && e.Op != ir.OpMod {
		g.emit(op.Imm32(dst, int32(k)))
		return true
	}
	g.emit(op.Imm(dst, int32(k)))
	g.normAfter(e, dst)
	return true
}

var aluOps = map[ir.Op]asm.ALUOp{
	ir.OpAdd: asm.Add, ir.OpSub: asm.Sub, ir.OpMul: asm.Mul, ir.OpDiv: asm.Div, ir.OpMod: asm.Mod,
	ir.OpAnd: asm.And, ir.OpOr: asm.Or, ir.OpXor: asm.Xor, ir.OpShl: asm.LSh, ir.OpShr: asm.RSh,
}

// normAfter restores canonical form after a 64-bit operation that may leave it.
func (g *code) normAfter(e *typed.Node, dst asm.Register) {
	switch e.Op {
	case ir.OpAnd, ir.OpOr, ir.OpXor, ir.OpShr, ir.OpMod:
		return
	case ir.OpDiv:
		if !e.Type.Signed {
			return
		}
	}
	g.extend(dst, e.Type)
}

// alu computes dst op= t in the type of e. It may change t if clobbers reports so.
func (g *machine) alu(e *typed.Node, dst, t asm.Register) {
	op := aluOps[e.Op]
	switch e.Op {
	case ir.OpDiv, ir.OpMod:
		if e.Type.Signed {
			g.signedDiv(e, dst, t)
			return
		}
	case ir.OpShl, ir.OpShr:
		g.emit(asm.And.Imm(t, int32(8*e.Type.Size-1)))
		if e.Op == ir.OpShr && e.Type.Signed {
			op = asm.ArSh
		}
	}
	if e.Type.Size == 4 && !e.Type.Signed && e.Op != ir.OpDiv && e.Op != ir.OpMod {
		g.emit(op.Reg32(dst, t))
		return
	}
	g.emit(op.Reg(dst, t))
	g.normAfter(e, dst)
}

// signedDiv divides magnitudes and then sets the sign. BPF's own signed division is new
// (6.6), and some versions of it trap on the most negative number. The sign is kept in the
// frame, because there may be no free register.
func (g *machine) signedDiv(e *typed.Node, dst, t asm.Register) {
	m := g.mark()
	defer g.release(m)
	sign := g.slot()
	g.store(sign, dst, 8)
	if e.Op == ir.OpDiv {
		g.emit(asm.Xor.Reg(dst, t))
		r := dst
		// The sign of a quotient is that of a^b. The xor has overwritten a: load it again.
		s2 := g.slot()
		g.store(s2, r, 8)
		g.load(dst, sign, 8)
		sign = s2
	}
	g.magnitude(dst)
	g.magnitude(t)
	g.emit(aluOps[e.Op].Reg(dst, t))
	g.load(t, sign, 8)
	done := g.label()
	g.emit(asm.JSGE.Imm(t, 0, done))
	g.emit(asm.Neg.Imm(dst, 0))
	g.Label(done)
	g.extend(dst, e.Type)
}

// signedDivImm is signedDiv for a positive constant divisor.
func (g *code) signedDivImm(e *typed.Node, dst asm.Register, k int32) {
	neg, done := g.label(), g.label()
	g.emit(asm.JSLT.Imm(dst, 0, neg))
	g.emit(aluOps[e.Op].Imm(dst, k))
	g.jump(done)
	g.Label(neg)
	g.emit(asm.Neg.Imm(dst, 0), aluOps[e.Op].Imm(dst, k), asm.Neg.Imm(dst, 0))
	g.Label(done)
}

func (g *code) magnitude(r asm.Register) {
	l := g.label()
	g.emit(asm.JSGE.Imm(r, 0, l), asm.Neg.Imm(r, 0))
	g.Label(l)
}
