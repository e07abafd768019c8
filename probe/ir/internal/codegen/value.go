package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// loadAny loads a scalar from a place of any alignment: accesses to the frame must be
// aligned.
func (g *runtime) loadAny(dst asm.Register, at loc, t ir.Type) {
	if at.off%t.Size != 0 {
		s := g.slot()
		g.copyMem(s, at, t.Size, asm.R0)
		at = s
	}
	g.load(dst, at, t.Size)
	if t.Signed {
		g.extend(dst, t)
	}
}

// valueIndex loads an element of a value in memory, or zero beyond its end. If the index is
// not constant, a helper that reads kernel memory fetches it, because not every verifier
// allows reads of the frame at a variable offset.
func (g *values) valueIndex(e *typed.Node, dst asm.Register) {
	m := g.mark()
	defer g.release(m)
	a, i, size := e.Args[0], e.Args[1], e.Type.Size
	if i.Const() {
		at := g.operand(a)
		// The checker refuses constants beyond the end, but the optimiser makes more of them.
		if n := int64(a.Type.Size / size); i.Int < 0 || i.Int >= n {
			g.emit(asm.Mov.Imm(dst, 0))
			return
		}
		g.loadAny(dst, at.at(int(i.Int)*size), e.Type)
		return
	}
	at := g.operand(a)
	out, end := g.slot(), g.label()
	g.storeImm(out, 0, 8)
	g.scalar(i, asm.R3)
	g.emit(asm.JGE.Imm(asm.R3, int32(a.Type.Size/size), end), asm.Mul.Imm(asm.R3, int32(size)))
	g.addr(asm.R2, at)
	g.emit(asm.Add.Reg(asm.R2, asm.R3), asm.Mov.Reg(asm.R3, asm.R2), asm.Mov.Imm(asm.R2, int32(size)))
	g.addr(asm.R1, out)
	g.call(asm.FnProbeReadKernel)
	g.Label(end)
	g.load(dst, out, size)
	if e.Type.Signed {
		g.extend(dst, e.Type)
	}
}

// mapCPU reads the value of one CPU in a per-CPU map, or zero if there is none.
func (g *values) mapCPU(e *typed.Node, dst asm.Register) {
	m := g.mark()
	defer g.release(m)
	var key *typed.Node
	if len(e.Args) == 2 {
		key = e.Args[0]
	}
	cpu := g.settled(e.Args[len(e.Args)-1])
	g.keyTo(e.Map, key, asm.R2)
	cpu(asm.R3)
	g.mapCall(e.Map, asm.FnMapLookupPercpuElem)
	none := g.label()
	g.emit(asm.JEq.Imm(asm.R0, 0, none),
		asm.LoadMem(asm.R0, asm.R0, int16(e.Int), sizeOf(e.Type.Size)))
	if e.Type.Signed {
		g.extend(asm.R0, e.Type)
	}
	g.Label(none)
	g.move(dst, asm.R0)
}
