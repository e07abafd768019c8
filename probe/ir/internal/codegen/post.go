package codegen

import (
	"strings"

	"github.com/cilium/ebpf/asm"
)

// finish resolves labels that share an instruction. It removes unreachable instructions,
// which the verifier refuses, and jumps to the next instruction.
func (g *code) finish() {
	if len(g.labels) > 0 {
		g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	}
	for i, in := range g.insns {
		if to, ok := g.alias[in.Reference()]; ok && strings.HasPrefix(in.Reference(), ".") {
			g.insns[i] = in.WithReference(to)
		}
	}
	g.dropUnreachable()
	g.dropJumps()
}

// dropUnreachable keeps the instructions that are reachable from the start, by jumps, calls
// and function pointers.
func (g *code) dropUnreachable() {
	at := map[string]int{}
	for i, in := range g.insns {
		if s := in.Symbol(); s != "" {
			at[s] = i
		}
	}
	seen := make([]bool, len(g.insns))
	work := []int{0}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		for i < len(g.insns) && !seen[i] {
			seen[i] = true
			in := g.insns[i]
			if to, ok := at[in.Reference()]; ok && !in.IsLoadFromMap() {
				work = append(work, to)
			}
			if op := in.OpCode.JumpOp(); in.OpCode.Class().IsJump() && (op == asm.Ja || op == asm.Exit) {
				break
			}
			i++
		}
	}
	out := g.insns[:0]
	for i, in := range g.insns {
		if seen[i] {
			out = append(out, in)
		}
	}
	g.insns = out
}

// dropJumps removes jumps to the next instruction. A jump that has a label stays, because
// another jump may lead to it.
func (g *code) dropJumps() {
	out := g.insns[:0]
	for i, in := range g.insns {
		ja := in.OpCode.Class().IsJump() && in.OpCode.JumpOp() == asm.Ja
		if ja && in.Symbol() == "" && i+1 < len(g.insns) && g.insns[i+1].Symbol() == in.Reference() {
			continue
		}
		out = append(out, in)
	}
	g.insns = out
}
