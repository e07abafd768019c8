package codegen

import (
	"encoding/binary"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// ctxReg returns the register that holds the context.
func (g *machine) ctxReg() asm.Register { return g.fn.ctx }

// ctxValue evaluates a value of the context.
func (g *runtime) ctxValue(e *typed.Node, dst asm.Register) {
	switch e.Place.Kind {
	case typed.PlaceAddr:
		g.emit(asm.Mov.Reg(dst, g.ctxReg()))
		if e.Place.Off != 0 {
			g.emit(asm.Add.Imm(dst, int32(e.Place.Off)))
		}
		return
	case typed.PlaceDataLoc, typed.PlaceRelLoc:
		g.dynamicAddr(e, dst)
		return
	}
	g.emit(asm.LoadMem(dst, g.ctxReg(), int16(e.Place.Off), sizeOf(e.Place.Size)))
	if e.Type.Kind == ir.KindBool {
		g.emit(asm.And.Imm(dst, 1))
		return
	}
	if e.Place.Size > e.Type.Size || e.Type.Signed && e.Place.Size <= e.Type.Size {
		t := e.Type
		t.Size = min(t.Size, e.Place.Size)
		g.extend(dst, t)
	}
}

// dynamicAddr loads the address that a __data_loc or __rel_loc refers to.
func (g *runtime) dynamicAddr(e *typed.Node, dst asm.Register) {
	was := g.busy
	g.hold(dst)
	t, _ := g.tmp()
	g.busy = was
	g.emit(asm.LoadMem(t, g.ctxReg(), int16(e.Place.Off), asm.Word), asm.And.Imm(t, 0xffff))
	if e.Place.Kind == typed.PlaceRelLoc {
		g.emit(asm.Add.Imm(t, int32(e.Place.Off+4)))
	}
	g.emit(asm.Mov.Reg(dst, g.ctxReg()), asm.Add.Reg(dst, t))
}

// toScalar turns a pointer whose type the verifier tracks into a scalar, which allows any
// arithmetic (on a pointer that may be null, the verifier allows none). An atomic addition to
// a zeroed slot is the only way without a helper.
func (g *runtime) toScalar(r asm.Register) {
	if g.c.Pp.Context != probe.ContextTramp && g.c.Pp.Context != probe.ContextIter {
		return
	}
	g.numbered(r)
}

// numbered turns any pointer into a scalar.
func (g *runtime) numbered(r asm.Register) {
	m := g.mark()
	s := g.slot()
	g.storeImm(s, 0, 8)
	g.emit(asm.AddAtomic.Mem(g.fn.fp, r, asm.DWord, int16(s.off)))
	g.load(r, s, 8)
	g.release(m)
}

func (g *code) move(dst, src asm.Register) {
	if dst != src {
		g.emit(asm.Mov.Reg(dst, src))
	}
}

// loadMemory reads a scalar from kernel or user memory.
func (g *values) loadMemory(e *typed.Node, dst asm.Register) {
	if root, off, ok := g.direct(e); ok {
		g.loadDirect(e, root, off, dst)
		return
	}
	m := g.mark()
	defer g.release(m)
	size := e.Type.Size
	if e.Bits != nil {
		size = e.Bits.Size
	}
	g.scalar(e.Args[0], asm.R3)
	if e.Int != 0 && e.Args[0].Type.Kind == ir.KindPtr {
		g.toScalar(asm.R3)
	}
	if !fitsImm(e.Int) {
		g.emit(asm.LoadImm(asm.R1, e.Int, asm.DWord), asm.Add.Reg(asm.R3, asm.R1))
	} else if e.Int != 0 {
		g.emit(asm.Add.Imm(asm.R3, int32(e.Int)))
	}
	s := g.slot()
	g.addr(asm.R1, s)
	g.emit(asm.Mov.Imm(asm.R2, int32(size)))
	g.readHelper(e.Args[0].Type.User, false, e.Site)
	g.load(dst, s, size)
	switch {
	case e.Bits != nil:
		g.emit(asm.LSh.Imm(dst, int32(e.Bits.Shl)))
		if e.Type.Signed {
			g.emit(asm.ArSh.Imm(dst, int32(e.Bits.Shr)))
		} else {
			g.emit(asm.RSh.Imm(dst, int32(e.Bits.Shr)))
		}
	case e.Type.Kind == ir.KindBool:
		g.truth(dst)
	case e.Type.Signed:
		g.extend(dst, e.Type)
	}
}

// truth sets a byte that is not 0 to 1.
func (g *code) truth(r asm.Register) {
	l := g.label()
	g.emit(asm.JEq.Imm(r, 0, l), asm.Mov.Imm(r, 1))
	g.Label(l)
}

// readHelper calls the helper that reads R2 bytes at R3 to R1. It counts a failure, after
// which the bytes are zeros, and reports it with its site.
func (g *runtime) readHelper(user, text bool, site uint32) {
	fn := map[[2]bool]asm.BuiltinFunc{
		{false, false}: asm.FnProbeReadKernel, {false, true}: asm.FnProbeReadKernelStr,
		{true, false}: asm.FnProbeReadUser, {true, true}: asm.FnProbeReadUserStr,
	}[[2]bool{user, text}]
	g.call(fn)
	bad, back := g.label(), g.label()
	g.emit(asm.JSLT.Imm(asm.R0, 0, bad))
	g.Label(back)
	g.later(bad, func() {
		g.failed(site)
		g.count(check.CntFaults)
		if text {
			g.emit(asm.Mov.Imm(asm.R0, 0))
		}
		g.jump(back)
	})
}

// inMemory returns the place of a value that already is in memory, and whether it is.
func (g *machine) inMemory(e *typed.Node) (loc, bool) {
	switch e.Op {
	case ir.OpVar:
		h := g.homes[e.Var]
		return h.at, !h.inReg
	case ir.OpElem:
		if at, ok := g.inMemory(e.Args[0]); ok {
			return at.at(e.Args[0].Type.Fields[e.Int].Offset), true
		}
	case ir.OpCast:
		if !e.Type.Scalar() && e.Type.Size == e.Args[0].Type.Size {
			return g.inMemory(e.Args[0])
		}
	}
	return loc{}, false
}

// operand returns the place of a value in memory. It evaluates the value if necessary.
func (g *values) operand(e *typed.Node) loc {
	if at, ok := g.inMemory(e); ok {
		return at
	}
	at := g.tempFor(e.Type)
	g.value(e, at)
	return at
}

// value evaluates e, of any type, to memory.
func (g *values) value(e *typed.Node, to loc) {
	if e.Type.Scalar() {
		if e.Const() && fitsImm(e.Int) {
			g.storeImm(to, int32(e.Int), e.Type.Size)
			return
		}
		r := asm.R0
		if e.Op == ir.OpVar && g.homes[e.Var].inReg {
			r = g.homes[e.Var].reg
		} else {
			g.scalar(e, r)
		}
		g.store(to, r, e.Type.Size)
		return
	}
	if at, ok := g.inMemory(e); ok {
		g.copyMem(to, at, e.Type.Size, asm.R0)
		return
	}
	switch e.Op {
	case ir.OpString, ir.OpBytes:
		g.constant(e.Str, to, e.Type.Size)
	case ir.OpBuiltin: // comm
		if !g.c.Kern.AtLeast(commPadded) {
			g.zero(to, e.Type.Size)
		}
		g.addr(asm.R1, to)
		g.emit(asm.Mov.Imm(asm.R2, int32(e.Type.Size)))
		g.call(asm.FnGetCurrentComm)
	case ir.OpStr:
		g.readText(e, to)
	case ir.OpPath:
		g.pathText(e, to)
	case ir.OpBuf:
		g.readBytes(e, to)
	case ir.OpTuple:
		g.tupleValue(e, to)
	case ir.OpElem:
		g.copyMem(to, g.operand(e.Args[0]).at(e.Args[0].Type.Fields[e.Int].Offset), e.Type.Size, asm.R0)
	case ir.OpCast:
		g.resize(e, to)
	case ir.OpCond:
		g.chooseValue(e, to)
	case ir.OpMapGet:
		g.mapGetValue(e, to)
	case ir.OpKstack, ir.OpUstack:
		g.stackValue(e, to)
	case ir.OpUstackWalk:
		g.walkedStack(e, to)
	default:
		g.fail("internal error: %s in memory", e.Op)
	}
}

// constant stores text followed by zeros.
func (g *runtime) constant(s string, to loc, size int) {
	rest := 0
	if whole := (len(s) + 8) &^ 7; whole < size && g.inOne(to, size-whole) {
		size, rest = whole, size-whole
	}
	g.zero(to.at(size), rest)
	b := make([]byte, size)
	copy(b, s)
	for i := 0; i < size; {
		n := chunk(to.off+i, size-i)
		var word [8]byte
		copy(word[:], b[i:i+n])
		v := binary.LittleEndian.Uint64(word[:])
		if n == 8 && !fitsImm(int64(v)) {
			g.emit(asm.LoadImm(asm.R0, int64(v), asm.DWord))
			g.store(to.at(i), asm.R0, 8)
		} else {
			g.storeImm(to.at(i), int32(v), n)
		}
		i += n
	}
}

// readText reads text to memory. It counts text that was cut: if the helper used all of the
// room, the byte in place of the NUL decides.
func (g *values) readText(e *typed.Node, to loc) {
	m := g.mark()
	defer g.release(m)
	size := e.Type.Size
	ptr := g.slot()
	if len(e.Args) == 2 {
		g.sizedText(e, to, ptr)
		return
	}
	g.scalar(e.Args[0], asm.R3)
	g.store(ptr, asm.R3, 8)
	g.zero(to, size)
	if g.inOne(to, size) {
		g.load(asm.R3, ptr, 8)
	}
	g.addr(asm.R1, to)
	g.emit(asm.Mov.Imm(asm.R2, int32(size)))
	g.readHelper(e.Args[0].Type.User, true, e.Site)
	g.checkCut(e, ptr)
}

func (g *values) checkCut(e *typed.Node, ptr loc) {
	full, back := g.label(), g.label()
	g.emit(asm.JEq.Imm(asm.R0, int32(e.Type.Size), full))
	g.Label(back)
	one := g.slot()
	g.later(full, func() {
		g.addr(asm.R1, one)
		g.emit(asm.Mov.Imm(asm.R2, 1))
		g.load(asm.R3, ptr, 8)
		g.emit(asm.Add.Imm(asm.R3, int32(e.Type.Size-1)))
		if e.Args[0].Type.User {
			g.call(asm.FnProbeReadUser)
		} else {
			g.call(asm.FnProbeReadKernel)
		}
		g.load(asm.R0, one, 1)
		g.emit(asm.JEq.Imm(asm.R0, 0, back))
		g.count(check.CntTruncated)
		g.jump(back)
	})
}

// sizedText is readText for text of at most as many bytes as the second operand.
func (g *values) sizedText(e *typed.Node, to, ptr loc) {
	room := int32(e.Type.Size - 1)
	g.scalar(e.Args[0], asm.R0)
	g.store(ptr, asm.R0, 8)
	g.scalar(e.Args[1], asm.R0)
	n := g.slot()
	l := g.label()
	g.emit(asm.JLE.Imm(asm.R0, room, l), asm.Mov.Imm(asm.R0, room))
	g.Label(l)
	g.emit(asm.Add.Imm(asm.R0, 1))
	g.store(n, asm.R0, 8)
	g.zero(to, e.Type.Size)
	g.load(asm.R2, n, 8)
	// The bound is repeated for the verifier: not every kernel tracks it through memory.
	l = g.label()
	g.emit(asm.JLE.Imm(asm.R2, room+1, l), asm.Mov.Imm(asm.R2, room+1))
	g.Label(l)
	g.addr(asm.R1, to)
	g.load(asm.R3, ptr, 8)
	user := e.Args[0].Type.User
	if user {
		g.call(asm.FnProbeReadUserStr)
	} else {
		g.call(asm.FnProbeReadKernelStr)
	}
	failed, back := g.label(), g.label()
	g.emit(asm.JSLT.Imm(asm.R0, 0, failed))
	g.Label(back)
	g.later(failed, func() {
		// The helper also reads the byte in place of the NUL, which may be in a page that is
		// not there. It failed, so there is no NUL before: the bytes alone are read.
		empty := g.label()
		g.load(asm.R2, n, 8)
		g.emit(asm.Sub.Imm(asm.R2, 1))
		l := g.label()
		g.emit(asm.JLE.Imm(asm.R2, room, l), asm.Mov.Imm(asm.R2, room))
		g.Label(l)
		g.emit(asm.JEq.Imm(asm.R2, 0, empty))
		g.addr(asm.R1, to)
		g.load(asm.R3, ptr, 8)
		g.readHelper(user, false, e.Site)
		g.Label(empty)
		g.emit(asm.Mov.Imm(asm.R0, 0))
		g.jump(back)
	})
	g.checkCut(e, ptr)
}

// readBytes reads a buffer to memory.
func (g *values) readBytes(e *typed.Node, to loc) {
	m := g.mark()
	defer g.release(m)
	size := int32(e.Type.Size)
	if len(e.Args) == 1 {
		g.scalar(e.Args[0], asm.R3)
		g.addr(asm.R1, to)
		g.emit(asm.Mov.Imm(asm.R2, size))
		g.readHelper(e.Args[0].Type.User, false, e.Site)
		return
	}
	ptr := g.slot()
	g.scalar(e.Args[0], asm.R0)
	g.store(ptr, asm.R0, 8)
	g.scalar(e.Args[1], asm.R2)
	many := g.inOne(to, e.Type.Size)
	if many {
		n := g.slot()
		g.store(n, asm.R2, 8)
		g.zero(to, e.Type.Size)
		g.load(asm.R2, n, 8)
	}
	cut, back := g.label(), g.label()
	g.emit(asm.JGT.Imm(asm.R2, size, cut))
	g.Label(back)
	g.later(cut, func() {
		g.count(check.CntTruncated)
		g.emit(asm.Mov.Imm(asm.R2, size))
		g.jump(back)
	})
	if !many {
		g.zero(to, e.Type.Size)
	}
	g.addr(asm.R1, to)
	g.load(asm.R3, ptr, 8)
	g.readHelper(e.Args[0].Type.User, false, e.Site)
}

// tupleValue stores the elements, with zeros between them.
func (g *values) tupleValue(e *typed.Node, to loc) {
	end := 0
	for i, f := range e.Type.Fields {
		g.zero(to.at(end), f.Offset-end)
		m := g.mark()
		g.value(e.Args[i], to.at(f.Offset))
		g.release(m)
		end = f.Offset + f.Type.Size
	}
	g.zero(to.at(end), e.Type.Size-end)
}

// scalarElem loads an element of a tuple.
func (g *values) scalarElem(e *typed.Node, dst asm.Register) {
	m := g.mark()
	defer g.release(m)
	at, ok := g.inMemory(e)
	if !ok {
		at = g.operand(e.Args[0]).at(e.Args[0].Type.Fields[e.Int].Offset)
	}
	g.load(dst, at, e.Type.Size)
	if e.Type.Signed {
		g.extend(dst, e.Type)
	}
}

// resize copies text or bytes to a longer or shorter buffer.
func (g *values) resize(e *typed.Node, to loc) {
	m := g.mark()
	defer g.release(m)
	from := e.Args[0]
	n := min(from.Type.Size, e.Type.Size)
	if from.Type.Scalar() { // an integer's bytes
		s := g.slot()
		g.scalar(from, asm.R0)
		g.store(s, asm.R0, n)
		g.copyMem(to, s, n, asm.R0)
		return
	}
	if from.Type.Size <= e.Type.Size {
		if at, ok := g.inMemory(from); ok {
			g.copyMem(to, at, n, asm.R0)
		} else {
			g.value(from, to)
		}
		g.zero(to.at(n), e.Type.Size-n)
		return
	}
	g.copyMem(to, g.operand(from), n, asm.R0)
	if e.Type.Kind == ir.KindString {
		g.storeImm(to.at(n-1), 0, 1)
	}
}

func (g *values) chooseValue(e *typed.Node, to loc) {
	no, end := g.label(), g.label()
	g.branch(e.Args[0], no, false)
	g.value(e.Args[1], to)
	g.jump(end)
	g.Label(no)
	g.value(e.Args[2], to)
	g.Label(end)
}

// stackValue stores the program counters of a stack. The helper zeroes the rest.
func (g *runtime) stackValue(e *typed.Node, to loc) {
	flags := int32(e.Skip)
	if e.Op == ir.OpUstack {
		flags |= 1 << 8 // BPF_F_USER_STACK
	}
	g.emit(asm.Mov.Reg(asm.R1, g.ctxReg()))
	g.addr(asm.R2, to)
	g.emit(asm.Mov.Imm(asm.R3, int32(e.Type.Size)), asm.Mov.Imm(asm.R4, flags))
	g.call(asm.FnGetStack)
}
