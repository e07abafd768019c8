package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// keyAt returns the place of an operation's key in memory. It evaluates the key there if it
// is not in memory yet.
func (g *values) keyAt(m *ir.Map, key *typed.Node) loc {
	if key == nil {
		s := g.slot()
		g.storeImm(s, 0, 4)
		return s
	}
	if at, ok := g.inMemory(key); ok && at.kind != inEvent {
		return at
	}
	at := g.tempFor(key.Type)
	g.value(key, at)
	return at
}

// keyTo is keyAt, and loads the key's address into a register.
func (g *values) keyTo(m *ir.Map, key *typed.Node, dst asm.Register) loc {
	at := g.keyAt(m, key)
	g.addr(dst, at)
	return at
}

// mapCall calls a map helper whose other arguments are in place.
func (g *runtime) mapCall(m *ir.Map, fn asm.BuiltinFunc) {
	g.emit(asm.LoadMapPtr(asm.R1, 0).WithReference(m.Name))
	g.call(fn)
}

// lookup loads the address of a value, or zero, into R0, and returns the place of the key.
func (g *values) lookup(m *ir.Map, key *typed.Node) loc {
	if m.Keyless() && m.Kind == ir.MapArray && m.Agg == ir.AggNone {
		g.emit(asm.LoadMapValue(asm.R0, 0, 0).WithReference(m.Name))
		return loc{}
	}
	if check.Storage(m) {
		g.storageGet(m, nil, false)
		return loc{}
	}
	at := g.keyTo(m, key, asm.R2)
	g.mapCall(m, asm.FnMapLookupElem)
	return at
}

// mapGet reads a scalar, zero if there is no entry.
func (g *values) mapGet(e *typed.Node, dst asm.Register) {
	m := g.mark()
	defer g.release(m)
	none := g.label()
	g.lookup(e.Map, e.Key())
	if !e.Map.Keyless() || e.Map.Kind != ir.MapArray {
		g.emit(asm.JEq.Imm(asm.R0, 0, g.missed(e.Site, none)))
	}
	g.emit(asm.LoadMem(asm.R0, asm.R0, 0, sizeOf(e.Type.Size)))
	if e.Type.Signed {
		g.extend(asm.R0, e.Type)
	}
	g.Label(none)
	g.move(dst, asm.R0)
}

// missed returns where a lookup without a result goes to: to none with zero in R0, behind a report of
// the failure if it has a site.
func (g *values) missed(site uint32, none string) string {
	if site == 0 {
		return none
	}
	miss := g.label()
	g.later(miss, func() {
		g.failed(site)
		g.emit(asm.Mov.Imm(asm.R0, 0))
		g.jump(none)
	})
	return miss
}

// mapGetValue reads a value in memory, zeros if there is no entry.
func (g *values) mapGetValue(e *typed.Node, to loc) {
	m := g.mark()
	defer g.release(m)
	none, end := g.label(), g.label()
	g.lookup(e.Map, e.Key())
	g.emit(asm.JEq.Imm(asm.R0, 0, g.missed(e.Site, none)))
	g.copyFrom(to, asm.R0, e.Type.Size)
	g.jump(end)
	g.Label(none)
	g.zero(to, e.Type.Size)
	g.Label(end)
}

// find looks up an entry, reads it, deletes it if s.Delete is set, and runs one of two
// blocks.
func (g *statements) find(s *typed.Stmt) {
	none, end := g.label(), g.label()
	key := g.lookup(s.Map, s.Key)
	g.emit(asm.JEq.Imm(asm.R0, 0, none))
	if s.Var != nil {
		g.setFrom(s.Var, asm.R0)
	}
	if s.Delete {
		g.deleteEntry(s.Map, key)
	}
	g.block(s.Body)
	if len(s.Else) > 0 {
		g.jump(end)
	}
	g.Label(none)
	g.block(s.Else)
	g.Label(end)
}

// set stores a value. If there is no room for it, it counts the loss under the map.
func (g *statements) set(s *typed.Stmt) {
	var val loc
	if at, ok := g.inMemory(s.X); ok {
		val = at
	} else {
		val = g.tempFor(s.X.Type)
		g.value(s.X, val)
	}
	if check.Storage(s.Map) {
		g.storageSet(s, val)
		return
	}
	g.keyTo(s.Map, s.Key, asm.R2)
	g.addr(asm.R3, val)
	g.emit(asm.Mov.Imm(asm.R4, int32(s.Flag)))
	g.mapCall(s.Map, asm.FnMapUpdateElem)
	full, back := g.label(), g.label()
	g.emit(asm.JNE.Imm(asm.R0, 0, full))
	g.Label(back)
	g.later(full, func() {
		switch s.Flag { // a condition that does not hold is not a loss
		case ir.SetCreate:
			// EEXIST
			g.emit(asm.LSh.Imm(asm.R0, 32), asm.ArSh.Imm(asm.R0, 32), asm.JEq.Imm(asm.R0, -17, back))
		case ir.SetUpdate:
			// ENOENT
			g.emit(asm.LSh.Imm(asm.R0, 32), asm.ArSh.Imm(asm.R0, 32), asm.JEq.Imm(asm.R0, -2, back))
		}
		g.failed(s.Site)
		g.count(g.lay.Lost(s.Map))
		g.jump(back)
	})
}

// addTo adds to a value atomically. A missing value is created as 0.
func (g *statements) addTo(s *typed.Stmt) {
	x := g.settled(s.X)
	hit, done := g.label(), g.label()
	g.findOrCreate(s.Map, s.Key, s.Map.Value.Size, hit, done)
	g.Label(hit)
	x(asm.R1)
	g.emit(asm.AddAtomic.Mem(asm.R0, asm.R1, sizeOf(s.Map.Value.Size), 0))
	g.Label(done)
}

// settled evaluates a scalar now, and returns a function that loads it into a register later,
// after calls.
func (g *values) settled(e *typed.Node) func(dst asm.Register) {
	if e.Const() || e.Op == ir.OpVar {
		return func(dst asm.Register) { g.scalar(e, dst) }
	}
	s := g.slot()
	g.scalar(e, asm.R0)
	g.store(s, asm.R0, 8)
	return func(dst asm.Register) { g.load(dst, s, 8) }
}

// findOrCreate loads the address of an entry's value into R0 and falls through to hit. A
// missing entry is created with zeros. If another CPU creates it at the same moment, the
// second lookup finds that entry, so that no update is lost. If there is no room, it counts
// the loss and jumps to done.
func (g *statements) findOrCreate(m *ir.Map, key *typed.Node, size int, hit, done string) {
	if check.Storage(m) {
		g.storageCreate(m, done)
		return
	}
	at := g.keyAt(m, key)
	g.findOrCreateAt(m, at, size, hit, done)
}

func (g *statements) findOrCreateAt(m *ir.Map, at loc, size int, hit, done string) {
	g.findOrCreateIn(m.Name, m, at, size, hit, done)
}

// findOrCreateIn is findOrCreate for the kernel's map of that name, which is one of m's.
func (g *runtime) findOrCreateIn(name string, m *ir.Map, at loc, size int, hit, done string) {
	load := func() { g.emit(asm.LoadMapPtr(asm.R1, 0).WithReference(name)) }
	if m.Flip {
		load = g.flipped(name, m, done)
	}
	call := func(fn asm.BuiltinFunc) {
		load()
		g.call(fn)
	}
	miss := g.label()
	g.addr(asm.R2, at)
	call(asm.FnMapLookupElem)
	g.emit(asm.JEq.Imm(asm.R0, 0, miss))
	if g.lay.Array(m) {
		g.later(miss, func() { g.jump(done) })
		return
	}
	zero, site := g.temp(size), g.site
	var result loc
	if site != 0 {
		result = g.slot()
	}
	g.later(miss, func() {
		g.zero(zero, size)
		g.addr(asm.R2, at)
		g.addr(asm.R3, zero)
		g.emit(asm.Mov.Imm(asm.R4, 1)) // BPF_NOEXIST
		call(asm.FnMapUpdateElem)
		if site != 0 {
			g.store(result, asm.R0, 8)
		}
		g.addr(asm.R2, at)
		call(asm.FnMapLookupElem)
		g.emit(asm.JNE.Imm(asm.R0, 0, hit))
		if site != 0 {
			g.load(asm.R0, result, 8)
			g.failed(site)
		}
		g.count(g.lay.Lost(m))
		g.jump(done)
	})
}
