package codegen

import (
	"sort"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/loops"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// usage is what a program uses, found before generating.
type usage struct {
	ctx, callbacks, scratch, emits bool
	result                         bool // what the program returns may not be 0
	cookie                         bool // what the entry of a session kept is read
	depth                          int  // how deep callbacks nest
	reads                          map[*ir.Var]int
}

// scan walks the action once.
func scan(g *statements) usage {
	u := usage{reads: map[*ir.Var]int{}}
	big := func(t ir.Type) {
		if !t.Scalar() && t.Size > g.lim.inline {
			u.scratch = true
		}
	}
	weight, depth := 1, 0
	var stmts func(list []*typed.Stmt)
	expr := func(e *typed.Node) {
		switch e.Op {
		case typed.Ctx, ir.OpKstack, ir.OpUstack:
			u.ctx = true
		case ir.OpUstackWalk:
			u.scratch = true
		case ir.OpBuiltin:
			u.ctx = u.ctx || ctxBuiltin(e.Str)
			u.cookie = u.cookie || e.Str == "session_cookie"
		case ir.OpVar:
			u.reads[e.Var] += weight
		}
		big(e.Type)
	}
	stmts = func(list []*typed.Stmt) {
		for _, s := range list {
			s.Key.Walk(expr)
			s.X.Walk(expr)
			for _, v := range s.Vars() {
				big(v.Type)
				u.reads[v] += weight
			}
			inner := false
			switch s.Op {
			case ir.StmtEmit:
				u.emits = true
				u.scratch = u.scratch || s.Map.Kind == ir.MapPerf && s.Map.Value.Size > g.lim.inline
				u.ctx = u.ctx || s.Map.Kind == ir.MapPerf
			case ir.StmtLoop, ir.StmtForEach:
				if inner = g.formOf(s, depth > 0) == loops.Helper; inner {
					u.callbacks = true
					depth++
					u.depth = max(u.depth, depth)
				}
			case ir.StmtOverride, ir.StmtSkip, ir.StmtCookie:
				u.ctx, u.result = true, true
			case ir.StmtSet, ir.StmtFind:
				big(s.Map.Value)
			}
			if s.Map != nil && (s.Key != nil || s.Map.Agg != ir.AggNone) {
				big(check.KernelKey(s.Map))
			}
			stmts(s.Body)
			stmts(s.Else)
			if inner {
				depth--
			}
		}
	}
	stmts(g.c.Body)
	u.scratch = u.scratch || g.lim.varsAway
	return u
}

// ctxBuiltin says whether a builtin reads the context.
func ctxBuiltin(name string) bool {
	switch name {
	case "func", "probe", "cookie", "ctx", "is_return", "session_cookie":
		return true
	}
	return false
}

// placeVars gives every variable its home: the most used scalars get the
// registers that are free, unless callbacks have to reach them; the others get
// memory, which variables whose lives do not overlap share.
func (g *machine) placeVars(c *check.Checked, u usage) {
	var free []asm.Register
	if !u.callbacks {
		free = append(free, asm.R7)
		if !u.emits {
			free = append(free, asm.R8)
		}
		if !u.scratch {
			free = append(free, asm.R9)
		}
		if !u.ctx {
			free = append(free, asm.R6)
		}
	}
	byUse := append([]*ir.Var(nil), c.Vars...)
	sort.SliceStable(byUse, func(i, j int) bool { return u.reads[byUse[i]] > u.reads[byUse[j]] })
	for _, v := range byUse {
		if len(free) > 0 && v.Type.Scalar() {
			g.homes[v] = home{reg: free[0], inReg: true}
			free = free[1:]
		}
	}
	a := &slots{g: g, free: map[slotKind][]loc{}}
	a.block(c.Body)
}

// slots hands out memory for variables by their lives: from the statement that
// declares one to the last of the same block that has it in it.
type slots struct {
	g    *machine
	free map[slotKind][]loc
}

type slotKind struct {
	kind locKind
	size int
}

func (a *slots) block(list []*typed.Stmt) {
	last := map[*ir.Var]int{}
	for i, s := range list {
		typed.Walk([]*typed.Stmt{s}, func(s *typed.Stmt) {
			for _, v := range s.Vars() {
				last[v] = i
			}
		}, func(e *typed.Node) {
			if e.Op == ir.OpVar {
				last[e.Var] = i
			}
		})
	}
	var mine []*ir.Var
	for i, s := range list {
		for _, v := range s.Vars() {
			if _, placed := a.g.homes[v]; placed {
				continue
			}
			a.g.homes[v] = home{at: a.take(v.Type)}
			mine = append(mine, v)
			if s.Op != ir.StmtLet { // the variable of a loop or a find ends with it
				last[v] = i
			}
		}
		a.block(s.Body)
		a.block(s.Else)
		kept := mine[:0]
		for _, v := range mine {
			if last[v] <= i {
				a.give(v)
			} else {
				kept = append(kept, v)
			}
		}
		mine = kept
	}
}

func (a *slots) kindOf(t ir.Type) slotKind {
	k := slotKind{kind: inFrame, size: 8}
	if !t.Scalar() {
		k.size = (t.Size + 7) / 8 * 8
	}
	if t.Size > a.g.lim.inline || t.Scalar() && a.g.lim.varsAway {
		k.kind = inScratch
	}
	return k
}

func (a *slots) take(t ir.Type) loc {
	k := a.kindOf(t)
	if n := len(a.free[k]); n > 0 {
		l := a.free[k][n-1]
		a.free[k] = a.free[k][:n-1]
		return l
	}
	if k.kind == inScratch {
		off := a.g.aux.used
		a.g.aux.take(k.size, 8)
		return loc{kind: inScratch, off: off}
	}
	return loc{off: -a.g.frame.take(k.size, 8)}
}

func (a *slots) give(v *ir.Var) {
	k := a.kindOf(v.Type)
	a.free[k] = append(a.free[k], a.g.homes[v].at)
}

// tempFor takes room for a value in memory: in the frame if it is small.
func (g *machine) tempFor(t ir.Type) loc { return g.temp(t.Size) }

func (g *machine) temp(size int) loc {
	if size > g.lim.inline {
		n := (size + 7) / 8 * 8
		off := g.aux.used
		g.aux.take(n, 8)
		return loc{kind: inScratch, off: off}
	}
	return loc{off: -g.frame.take(size, 8)}
}

// mark and release bound the life of temporaries.
type mark struct{ frame, aux int }

func (g *machine) mark() mark { return mark{g.frame.used, g.aux.used} }

func (g *machine) release(m mark) { g.frame.used, g.aux.used = m.frame, m.aux }

// slot takes an 8-byte slot in the frame.
func (g *machine) slot() loc { return loc{off: -g.frame.take(8, 8)} }

// base is the register that a place is addressed by.
func (g *machine) base(k locKind) asm.Register {
	switch k {
	case inScratch:
		return g.fn.scr
	case inEvent:
		return g.fn.evnt
	}
	return g.fn.fp
}

// at moves a place by n bytes.
func (l loc) at(n int) loc {
	l.off += n
	return l
}

// store and load move between a register and memory; addr takes an address.
func (g *machine) store(l loc, r asm.Register, size int) {
	g.emit(asm.StoreMem(g.base(l.kind), int16(l.off), r, sizeOf(size)))
}

func (g *machine) load(r asm.Register, l loc, size int) {
	g.emit(asm.LoadMem(r, g.base(l.kind), int16(l.off), sizeOf(size)))
}

func (g *machine) storeImm(l loc, v int32, size int) {
	g.emit(storeImm(g.base(l.kind), l.off, v, sizeOf(size)))
}

// storeImm is asm.StoreImm, which refuses 64 bits although the kernel
// sign-extends the immediate (BPF_ST | BPF_DW).
func storeImm(dst asm.Register, off int, v int32, size asm.Size) asm.Instruction {
	return asm.Instruction{
		OpCode: asm.StoreImmOp(size), Dst: dst, Offset: int16(off),
		Constant: int64(v),
	}
}

func (g *machine) addr(r asm.Register, l loc) {
	g.emit(asm.Mov.Reg(r, g.base(l.kind)))
	if l.off != 0 {
		g.emit(asm.Add.Imm(r, int32(l.off)))
	}
}

func sizeOf(n int) asm.Size {
	switch n {
	case 1:
		return asm.Byte
	case 2:
		return asm.Half
	case 4:
		return asm.Word
	}
	return asm.DWord
}

// chunk is the widest access at off for n more bytes that is aligned.
func chunk(off, n int) int {
	for _, s := range []int{8, 4, 2} {
		if n >= s && off%s == 0 {
			return s
		}
	}
	return 1
}

// zero clears n bytes.
func (g *machine) zero(l loc, n int) {
	for i := 0; i < n; {
		s := chunk(l.off+i, n-i)
		g.storeImm(l.at(i), 0, s)
		i += s
	}
}

// copyWidth is the widest access with which a value is copied to a place. In the
// frame, 8 bytes stored from a register are a spilled register to the verifier,
// and Linux 6.10 and later take an unknown one for the same as 8 bytes of any
// kind (stacksafe, kernel/bpf/verifier.c). Where one branch copies there and the
// other has a helper write there, it then looks for the register behind the
// helper's call, which it does not know to be a write, up to where the frame was
// smaller, and gives up with EFAULT ("verifier bug: stack slot", 6.18). Halves
// are no register.
func copyWidth(dst loc) int {
	if dst.kind == inFrame {
		return 4
	}
	return 8
}

// copyMem copies n bytes through R through.
func (g *machine) copyMem(dst, src loc, n int, through asm.Register) {
	for i := 0; i < n; {
		s := min(chunk(dst.off+i, n-i), chunk(src.off+i, n-i), copyWidth(dst))
		g.load(through, src.at(i), s)
		g.store(dst.at(i), through, s)
		i += s
	}
}

// tmp takes a free caller-saved register, marked busy.
func (g *machine) tmp() (asm.Register, bool) {
	for _, r := range []asm.Register{asm.R1, asm.R2, asm.R3, asm.R4, asm.R5, asm.R0} {
		if !g.busy.has(r) {
			g.busy |= 1 << r
			return r, true
		}
	}
	return 0, false
}

func (g *machine) hold(r asm.Register) { g.busy |= 1 << r }

// Atomic is a 64-bit atomic operation. The operation is set as the constant
// too, where the kernel looks for it: cilium/ebpf v0.22.0 loses it when it
// encodes the instruction, which makes every operation an addition.
func Atomic(op asm.AtomicOp, dst, src asm.Register, off int16) asm.Instruction {
	in := op.Mem(dst, src, asm.DWord, off)
	in.Constant = int64(op >> 8)
	return in
}
