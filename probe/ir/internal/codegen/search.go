package codegen

import (
	"math/bits"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// maxSearch bounds the comparisons of a search, which is unrolled.
const maxSearch = 1 << 13

// search calls found(i) to generate code for text found at byte i of the text at a place. The
// code falls through if the text is not found. It is unrolled: its size depends on those of
// the texts.
func (g *values) search(e *typed.Node, at loc, found func(i int)) {
	size := e.Args[0].Type.Size
	if len(e.Args) == 2 {
		g.searchText(at, size, e.Args[1], found)
		return
	}
	s := e.Str
	last := size - 1 - len(s)
	if (last+1)*len(s) > maxSearch {
		g.fail("%s: text of %d bytes in one of %d is too much to unroll", e.Op, len(s), size)
		return
	}
	for i := 0; i <= last; i++ {
		next := g.label()
		for j := range len(s) {
			g.load(asm.R0, at.at(i+j), 1)
			g.emit(asm.JNE.Imm(asm.R0, int32(s[j]), next))
		}
		found(i)
		g.Label(next)
	}
}

// searchText is search for text that is not constant.
func (g *values) searchText(at loc, size int, needle *typed.Node, found func(i int)) {
	b, most := g.operand(needle), needle.Type.Size
	if size*most > maxSearch {
		g.fail("search for text of %d bytes in one of %d: too much to unroll", most, size)
		return
	}
	for i := range size {
		next, hit := g.label(), g.label()
		for j := range min(most, size-i) {
			g.load(asm.R1, b.at(j), 1)
			g.emit(asm.JEq.Imm(asm.R1, 0, hit))
			g.load(asm.R0, at.at(i+j), 1)
			g.emit(asm.JNE.Reg(asm.R0, asm.R1, next))
		}
		g.jump(next) // the NUL at the end of one is not in the other
		g.Label(hit)
		found(i)
		g.Label(next)
	}
}

// indexOf loads the index of text in text, or -1.
func (g *values) indexOf(e *typed.Node, dst asm.Register) {
	m := g.mark()
	defer g.release(m)
	done := g.label()
	at := g.operand(e.Args[0])
	g.search(e, at, func(i int) {
		g.imm(asm.R0, int64(i))
		g.jump(done)
	})
	g.imm(asm.R0, -1)
	g.Label(done)
	g.move(dst, asm.R0)
}

// glob jumps to yes if the text at a place matches the pattern. R1 has a bit for each
// position that the pattern may be at. The only branches are those at the end of the text, so
// that the verifier walks one path.
func (g *values) glob(e *typed.Node, at loc, yes string) {
	p, err := check.ParseGlob(e.Str)
	if err != nil {
		g.fail("%v", err)
		return
	}
	size := e.Args[0].Type.Size
	if size*len(p.Tokens) > maxSearch {
		g.fail("globmatch: pattern of %d characters on text of %d bytes is too much to unroll",
			len(p.Tokens), size)
		return
	}
	done := g.label()
	g.imm(asm.R1, 1)
	for i := range size - 1 {
		g.load(asm.R0, at.at(i), 1)
		g.emit(asm.JEq.Imm(asm.R0, 0, done))
		g.globStep(p)
	}
	g.Label(done)
	g.emit(asm.RSh.Imm(asm.R1, int32(len(p.Tokens))), asm.And.Imm(asm.R1, 1),
		asm.JNE.Imm(asm.R1, 0, yes))
}

// globStep advances the positions in R1 by the byte in R0. It collects in R2 the tokens that
// match the byte, and uses R3 and R4.
func (g *values) globStep(p *check.Glob) {
	always := uint64(0)
	for i, c := range p.Tokens {
		if c.Any {
			always |= 1 << i
		}
	}
	g.imm(asm.R2, int64(always))
	done := map[string]bool{}
	for _, c := range p.Tokens {
		if c.Any || done[c.Key()] {
			continue
		}
		done[c.Key()] = true
		mask := uint64(0)
		for i := range p.Tokens {
			if !p.Tokens[i].Any && p.Tokens[i].Key() == c.Key() {
				mask |= 1 << i
			}
		}
		g.imm(asm.R4, 0)
		for _, r := range c.Ranges { // byte-lo, modulo 256, is below the range's length
			g.emit(
				asm.Mov.Reg(asm.R3, asm.R0), asm.Sub.Imm(asm.R3, int32(r[0])), asm.And.Imm(asm.R3, 0xff),
				asm.Sub.Imm(asm.R3, int32(r[1]-r[0])+1), asm.RSh.Imm(asm.R3, 63), asm.Or.Reg(asm.R4, asm.R3),
			)
		}
		if c.Negated {
			g.emit(asm.Xor.Imm(asm.R4, 1))
		}
		// The mask or 0, by multiplication. For the usual negation and "and", newer verifiers
		// walk both cases (maybe_fork_scalars, kernel/bpf/verifier.c).
		g.withImm(asm.Mul, asm.R4, mask, asm.R3)
		g.emit(asm.Or.Reg(asm.R2, asm.R4))
	}
	g.emit(asm.And.Reg(asm.R2, asm.R1), asm.LSh.Imm(asm.R2, 1))
	g.withImm(asm.And, asm.R1, p.Gaps, asm.R3)
	g.emit(asm.Or.Reg(asm.R1, asm.R2))
}

// withImm emits an operation with a constant of any size.
func (g *code) withImm(op asm.ALUOp, r asm.Register, v uint64, tmp asm.Register) {
	if fitsImm(int64(v)) {
		g.emit(op.Imm(r, int32(v)))
		return
	}
	g.emit(asm.LoadImm(tmp, int64(v), asm.DWord), op.Reg(r, tmp))
}

// memcmp compares memory by order, as big-endian words: their first byte is the highest.
func (g *values) memcmp(e *typed.Node, dst asm.Register) {
	m := g.mark()
	defer g.release(m)
	a := g.operand(e.Args[0])
	b := g.operand(e.Args[1])
	differ, less, end := g.label(), g.label(), g.label()
	for i := 0; i < int(e.Int); {
		n := min(chunk(a.off+i, int(e.Int)-i), chunk(b.off+i, int(e.Int)-i))
		g.load(asm.R0, a.at(i), n)
		g.load(asm.R1, b.at(i), n)
		if n > 1 {
			g.emit(asm.HostTo(asm.BE, asm.R0, sizeOf(n)), asm.HostTo(asm.BE, asm.R1, sizeOf(n)))
		}
		g.emit(asm.JNE.Reg(asm.R0, asm.R1, differ))
		i += n
	}
	g.imm(dst, 0)
	g.jump(end)
	g.Label(differ)
	g.emit(asm.JLT.Reg(asm.R0, asm.R1, less))
	g.imm(dst, 1)
	g.jump(end)
	g.Label(less)
	g.imm(dst, -1)
	g.Label(end)
}

// textLen counts the bytes before the NUL, or the frames of a stack.
func (g *values) textLen(e *typed.Node, dst asm.Register) {
	m := g.mark()
	defer g.release(m)
	at := g.operand(e.Args[0])
	if of := e.Args[0].Type; of.Kind == ir.KindString && g.inOne(at, of.Size) {
		// A copy of the text to where it is tells its length, with the NUL.
		g.addr(asm.R1, at)
		g.emit(asm.Mov.Imm(asm.R2, int32(of.Size)))
		g.addr(asm.R3, at)
		g.call(asm.FnProbeReadKernelStr)
		g.emit(asm.Sub.Imm(asm.R0, 1))
		g.move(dst, asm.R0)
		return
	}
	n, size := e.Args[0].Type.Size-1, 1
	if e.Args[0].Type.Kind == ir.KindBytes {
		n, size = e.Args[0].Type.Size/8, 8
	}
	if size == 8 && at.kind != inFrame { // in a frame the verifier of Linux 5.10 takes constant offsets only
		g.framesAt(at, n)
		g.move(dst, asm.R1)
		return
	}
	done := g.label()
	g.imm(asm.R1, 0)
	for i := range n {
		g.load(asm.R0, at.at(i*size), size)
		g.emit(asm.JEq.Imm(asm.R0, 0, done), asm.Add.Imm(asm.R1, 1))
	}
	g.Label(done)
	g.move(dst, asm.R1)
}

// framesAt counts in R1 the frames of a stack that has room for n, zeros after the last: by halves, and without a
// branch. Of the number the verifier then knows the range only, and looks once at what follows.
func (g *values) framesAt(at loc, n int) {
	g.addr(asm.R2, at)
	g.imm(asm.R1, 0) // in bytes
	// The first step leaves one less than a power of two, and so does each of the others.
	half := 1 << (bits.Len(uint(n)) - 1)
	for step, next := n-half+1, half/2; step > 0; step, next = next, next/2 {
		g.emit(
			asm.LoadMem(asm.R0, asm.R2, int16((step-1)*8), asm.DWord),
			asm.Mov.Reg(asm.R3, asm.R0), asm.Neg.Imm(asm.R3, 0),
			asm.Or.Reg(asm.R0, asm.R3), asm.RSh.Imm(asm.R0, 63), // whether it is a frame
			asm.Mul.Imm(asm.R0, int32(step*8)),
			asm.Add.Reg(asm.R1, asm.R0), asm.Add.Reg(asm.R2, asm.R0),
		)
	}
	g.emit(asm.RSh.Imm(asm.R1, 3))
}
