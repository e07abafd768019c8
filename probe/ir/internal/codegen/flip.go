package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
)

// flipped looks up the map that is currently written, and returns a function that loads its
// address: all accesses of an update must go to the same map. If there is no such map, which
// does not happen once the program is loaded, it counts the loss and jumps to done.
func (g *runtime) flipped(name string, m *ir.Map, done string) func() {
	key, at, none := g.slot(), g.slot(), g.label()
	g.storeImm(key, 0, 4)
	g.emit(asm.LoadMapPtr(asm.R1, 0).WithReference(name))
	g.addr(asm.R2, key)
	g.call(asm.FnMapLookupElem)
	g.emit(asm.JEq.Imm(asm.R0, 0, none))
	g.store(at, asm.R0, 8)
	g.later(none, func() {
		g.count(g.lay.Lost(m))
		g.jump(done)
	})
	return func() { g.load(asm.R1, at, 8) }
}
