package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// pathText has the kernel write a path to memory of its own, because bpf_d_path leaves more
// than the text there, and copies the text. A path that does not fit results in an empty
// text, and is counted as cut.
func (g *values) pathText(e *typed.Node, to loc) {
	m := g.mark()
	defer g.release(m)
	root, off := pointerRoot(e.Args[0], 0)
	if off < 0 || off > 1<<20 || g.pointee(root) == nil ||
		root.Op != typed.Ctx && (root.Op != ir.OpVar || !g.argVars[root.Var]) {
		g.fail("%w", check.ErrPathNotArgument)
		return
	}
	size := e.Type.Size
	raw := g.temp(size)
	bad, cut, end := g.label(), g.label(), g.label()
	if raw.kind == inFrame {
		// The helper's buffer must be initialised memory (ARG_PTR_TO_MEM).
		g.zero(raw, size)
	}
	g.zero(to, size)
	g.scalar(root, asm.R1)
	if e.Site != 0 {
		g.emit(asm.Mov.Imm(asm.R0, -efault))
	}
	g.emit(asm.JEq.Imm(asm.R1, 0, bad))
	if off != 0 {
		g.emit(asm.Add.Imm(asm.R1, int32(off)))
	}
	g.addr(asm.R2, raw)
	g.emit(asm.Mov.Imm(asm.R3, int32(size)))
	g.call(asm.FnDPath)
	g.emit(asm.JEq.Imm(asm.R0, -enametoolong, cut), asm.JSLT.Imm(asm.R0, 0, bad))
	g.addr(asm.R1, to)
	g.emit(asm.Mov.Imm(asm.R2, int32(size)))
	g.addr(asm.R3, raw)
	g.readHelper(false, true, e.Site)
	g.Label(end)
	g.later(bad, func() {
		g.failed(e.Site)
		g.count(check.CntFaults)
		g.jump(end)
	})
	g.later(cut, func() {
		g.failed(e.Site)
		g.count(check.CntTruncated)
		g.jump(end)
	})
}

// Errors of bpf_d_path: for a path that does not fit, and for one that is not there.
const (
	enametoolong = 36
	efault       = 14
)
