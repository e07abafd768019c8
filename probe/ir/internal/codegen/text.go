package codegen

import (
	"encoding/binary"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// memJump is branch for a comparison of values in memory.
func (g *values) memJump(e *typed.Node, target string, when bool) {
	m := g.mark()
	defer g.release(m)
	equal := (e.Op == ir.OpEq) == when // jump to target if equal
	differ := target
	if equal {
		differ = g.label()
	}
	a, b := e.Args[0], e.Args[1]
	at := g.operand(a)
	switch b.Op {
	case ir.OpString:
		g.matchConst(at, a.Type.Size, b.Str, differ)
	case ir.OpBytes:
		all := make([]byte, b.Type.Size)
		copy(all, b.Str)
		g.matchBytes(at, all, differ)
	default:
		g.matchMem(at, a.Type, g.operand(b), b.Type, differ)
	}
	if equal {
		g.jump(target)
		g.Label(differ)
	}
}

// matchConst jumps to differ unless the text at a place is s.
func (g *machine) matchConst(at loc, size int, s, differ string) {
	if len(s) >= size {
		g.jump(differ)
		return
	}
	g.matchBytes(at, append([]byte(s), 0), differ)
}

// matchBytes jumps to differ unless the bytes at a place are b.
func (g *machine) matchBytes(at loc, b []byte, differ string) {
	for i := 0; i < len(b); {
		n := chunk(at.off+i, len(b)-i)
		var word [8]byte
		copy(word[:], b[i:i+n])
		v := int64(binary.LittleEndian.Uint64(word[:]))
		g.load(asm.R0, at.at(i), n)
		if fitsImm(v) {
			g.emit(asm.JNE.Imm(asm.R0, int32(v), differ))
		} else {
			g.emit(asm.LoadImm(asm.R1, v, asm.DWord), asm.JNE.Reg(asm.R0, asm.R1, differ))
		}
		i += n
	}
}

// matchMem jumps to differ unless two values are equal. Texts of different sizes are equal if
// they are equal up to the shorter size and the longer text ends there.
func (g *machine) matchMem(a loc, ta ir.Type, b loc, tb ir.Type, differ string) {
	if ta.Size > tb.Size {
		a, ta, b, tb = b, tb, a, ta
	}
	for i := 0; i < ta.Size; {
		n := min(chunk(a.off+i, ta.Size-i), chunk(b.off+i, ta.Size-i))
		g.load(asm.R0, a.at(i), n)
		g.load(asm.R1, b.at(i), n)
		g.emit(asm.JNE.Reg(asm.R0, asm.R1, differ))
		i += n
	}
	if tb.Size > ta.Size {
		g.load(asm.R0, b.at(ta.Size), 1)
		g.emit(asm.JNE.Imm(asm.R0, 0, differ))
	}
}

// textJump is branch for has_prefix, contains, globmatch and strncmp, which is true here if
// the texts are equal.
func (g *values) textJump(e *typed.Node, target string, when bool) {
	m := g.mark()
	defer g.release(m)
	yes, no := target, g.label()
	if !when {
		yes, no = no, yes
	}
	at := g.operand(e.Args[0])
	switch e.Op {
	case ir.OpHasPrefix:
		g.matchBytes(at, []byte(e.Str), no)
		if when {
			g.jump(yes)
		}
	case ir.OpContains:
		g.search(e, at, func(int) { g.jump(yes) })
		if !when {
			g.jump(no)
		}
	case ir.OpGlob:
		g.glob(e, at, yes)
		if !when {
			g.jump(no)
		}
	case ir.OpStrncmp:
		g.strncmp(e, at, yes, no)
		if when {
			g.jump(yes)
		}
	}
	if when {
		g.Label(no)
	} else {
		g.Label(yes)
	}
}

// strncmp compares up to e.Int bytes, but none after a NUL. It jumps to no if a byte differs
// and to yes if both texts end, and falls through after the last byte.
func (g *values) strncmp(e *typed.Node, at loc, yes, no string) {
	b := g.operand(e.Args[1])
	la, lb := e.Args[0].Type.Size, e.Args[1].Type.Size
	for i := range min(int(e.Int), min(la, lb)) {
		g.load(asm.R0, at.at(i), 1)
		g.load(asm.R1, b.at(i), 1)
		g.emit(asm.JNE.Reg(asm.R0, asm.R1, no), asm.JEq.Imm(asm.R0, 0, yes))
	}
}
