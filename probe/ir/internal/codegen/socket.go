package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// socketCookie loads a socket's cookie, or 0 if the pointer is null.
func (g *values) socketCookie(e *typed.Node, dst asm.Register) {
	root, off := pointerRoot(e.Args[0], 0)
	if !g.isArgument(root, off) {
		g.fail("%s: %w", e.Op, check.ErrNotArgument)
		return
	}
	null, back := g.label(), g.label()
	g.scalar(root, asm.R1)
	g.emit(asm.JEq.Imm(asm.R1, 0, null))
	g.call(asm.FnGetSocketCookie)
	g.Label(back)
	g.move(dst, asm.R0)
	g.later(null, func() {
		g.imm(asm.R0, 0)
		g.jump(back)
	})
}
