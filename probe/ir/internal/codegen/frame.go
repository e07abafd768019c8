package codegen

import (
	"sort"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/bpfasm"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/builtin"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/loops"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// usage is what a program uses, found before any code is generated.
type usage struct {
	ctx, callbacks, scratch, emits bool
	result                         bool // the program may return other values than 0
	cookie                         bool // the program reads the cookie of a session
	depth                          int  // nesting depth of callbacks
	reads                          map[*ir.Var]int
	addressed                      map[*ir.Var]bool // variables whose addresses are taken
}

// scan returns the usage of the action.
func scan(g *statements) usage {
	u := usage{reads: map[*ir.Var]int{}, addressed: map[*ir.Var]bool{}}
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
			u.ctx = u.ctx || builtin.Named(e.Str).Context
			u.cookie = u.cookie || e.Str == "session_cookie"
		case ir.OpVar:
			u.reads[e.Var] += weight
		case ir.OpVarAddr:
			u.addressed[e.Var] = true
		}
		big(e.Type)
	}
	stmts = func(list []*typed.Stmt) {
		for _, s := range list {
			s.Key.Walk(expr)
			s.X.Walk(expr)
			s.Time.Walk(expr)
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
			case ir.StmtTrace:
				u.scratch = u.scratch || len(s.Text) >= g.lim.inline
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

// placeVars assigns every variable its home. The most used scalars get the free registers,
// unless callbacks need access to them. The others get memory, which variables with disjoint
// lives share.
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
		if len(free) > 0 && v.Type.Scalar() && !u.addressed[v] {
			g.homes[v] = home{reg: free[0], inReg: true}
			free = free[1:]
		}
	}
	a := &slots{g: g, free: map[slotKind][]loc{}, addressed: u.addressed}
	a.block(c.Body)
}

// slots allocates memory for variables by their lives: from the statement that declares a
// variable to the last statement of the same block that contains it, or, if its address is taken, to
// the end of the action.
type slots struct {
	g         *machine
	free      map[slotKind][]loc
	addressed map[*ir.Var]bool
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
			if a.addressed[v] {
				continue
			}
			mine = append(mine, v)
			if s.Op != ir.StmtLet { // a loop's or find's variable ends with it
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

// tempFor allocates memory for a value: in the frame if it is small.
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

// mark and release delimit the life of temporaries.
type mark struct{ frame, aux int }

func (g *machine) mark() mark { return mark{g.frame.used, g.aux.used} }

func (g *machine) release(m mark) { g.frame.used, g.aux.used = m.frame, m.aux }

// slot allocates 8 bytes in the frame.
func (g *machine) slot() loc { return loc{off: -g.frame.take(8, 8)} }

// base returns the register that addresses a kind of place.
func (g *machine) base(k locKind) asm.Register {
	switch k {
	case inScratch:
		return g.fn.scr
	case inEvent:
		return g.fn.evnt
	}
	return g.fn.fp
}

// at returns the place n bytes after l.
func (l loc) at(n int) loc {
	l.off += n
	return l
}

// store and load move a value between a register and memory; addr loads an address.
func (g *machine) store(l loc, r asm.Register, size int) {
	g.reach(l, func(base asm.Register, off int) {
		g.emit(asm.StoreMem(base, int16(off), r, sizeOf(size)))
	})
}

func (g *machine) load(r asm.Register, l loc, size int) {
	g.reach(l, func(base asm.Register, off int) {
		g.emit(asm.LoadMem(r, base, int16(off), sizeOf(size)))
	})
}

func (g *machine) storeImm(l loc, v int32, size int) {
	g.reach(l, func(base asm.Register, off int) {
		g.emit(bpfasm.StoreImm(base, off, v, sizeOf(size)))
	})
}

// farthest is the largest offset of an instruction that accesses memory.
const farthest = 1<<15 - 8

// reach has a place accessed by its base and an offset. For one that is farther away than an
// instruction reaches, the base is moved meanwhile.
func (g *machine) reach(l loc, access func(base asm.Register, off int)) {
	base := g.base(l.kind)
	if l.off <= farthest {
		access(base, l.off)
		return
	}
	by := int32(l.off &^ (1<<14 - 1))
	g.emit(asm.Add.Imm(base, by))
	access(base, l.off-int(by))
	g.emit(asm.Sub.Imm(base, by))
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

// chunk returns the widest aligned access at off if n more bytes are left.
func chunk(off, n int) int {
	for _, s := range []int{8, 4, 2} {
		if n >= s && off%s == 0 {
			return s
		}
	}
	return 1
}

// mostUnrolled is the most bytes that are cleared or copied one word after the other. More are
// cleared and copied by a helper.
const mostUnrolled = 8192

// inOne reports whether as many bytes of a place are cleared, or copied there, by one call of a
// helper. Programs of other licences than the GPL's may not call it.
func (g *runtime) inOne(l loc, n int) bool {
	return n > mostUnrolled && l.kind != inFrame && GPLCompatible(check.License(g.prog))
}

// zero clears n bytes. If they are many, it clobbers R0 to R5.
func (g *runtime) zero(l loc, n int) {
	if g.inOne(l, n) {
		// The helper clears what it cannot fill, and the kernel has nothing at address 0.
		g.addr(asm.R1, l)
		g.emit(asm.Mov.Imm(asm.R2, int32(n)), asm.Mov.Imm(asm.R3, 0))
		g.call(asm.FnProbeReadKernel)
		return
	}
	for i := 0; i < n; {
		s := chunk(l.off+i, n-i)
		g.storeImm(l.at(i), 0, s)
		i += s
	}
}

// copyWidth returns the widest access with which a value is copied to a place. For the
// verifier, an 8-byte store from a register to the frame is a spill of that register. Linux
// 6.10 and later treat a spilled unknown register as equivalent to 8 bytes of any kind
// (stacksafe, kernel/bpf/verifier.c). If one branch copies to the place and another has a
// helper write to it, the verifier then looks for the register before the helper's call,
// which it does not recognise as a write. It goes back to states with a smaller frame, and
// fails with EFAULT ("verifier bug: stack slot", 6.18). Stores of 4 bytes are not spills.
func copyWidth(dst loc) int {
	if dst.kind == inFrame {
		return 4
	}
	return 8
}

// copyMem copies n bytes, using the register through. If they are many, it clobbers R0 to R5.
func (g *runtime) copyMem(dst, src loc, n int, through asm.Register) {
	if g.inOne(dst, n) {
		g.addr(asm.R3, src)
		g.copyAt(dst, n)
		return
	}
	for i := 0; i < n; {
		s := min(chunk(dst.off+i, n-i), chunk(src.off+i, n-i), copyWidth(dst))
		g.load(through, src.at(i), s)
		g.store(dst.at(i), through, s)
		i += s
	}
}

// copyAt copies n bytes from the address in R3 by a helper.
func (g *runtime) copyAt(dst loc, n int) {
	g.addr(asm.R1, dst)
	g.emit(asm.Mov.Imm(asm.R2, int32(n)))
	g.call(asm.FnProbeReadKernel)
}

// tmp returns a free caller-saved register and marks it busy.
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
