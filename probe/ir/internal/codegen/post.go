package codegen

import "github.com/cilium/ebpf/asm"

// finish resolves labels that share an instruction. It removes unreachable instructions,
// which the verifier refuses, and jumps to the next instruction.
func (g *code) finish() asm.Instructions {
	return dropJumps(dropUnreachable(g.Finish()))
}

// dropUnreachable keeps the instructions that are reachable from the start, by jumps, calls
// and function pointers.
func dropUnreachable(insns asm.Instructions) asm.Instructions {
	at := map[string]int{}
	for i, in := range insns {
		if s := in.Symbol(); s != "" {
			at[s] = i
		}
	}
	seen := make([]bool, len(insns))
	work := []int{0}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		for i < len(insns) && !seen[i] {
			seen[i] = true
			in := insns[i]
			if to, ok := at[in.Reference()]; ok && !in.IsLoadFromMap() {
				work = append(work, to)
			}
			if op := in.OpCode.JumpOp(); in.OpCode.Class().IsJump() && (op == asm.Ja || op == asm.Exit) {
				break
			}
			i++
		}
	}
	out := insns[:0]
	for i, in := range insns {
		if seen[i] {
			out = append(out, in)
		}
	}
	return out
}

// dropJumps removes jumps to the next instruction. A jump that has a label stays, because
// another jump may lead to it.
func dropJumps(insns asm.Instructions) asm.Instructions {
	out := insns[:0]
	for i, in := range insns {
		ja := in.OpCode.Class().IsJump() && in.OpCode.JumpOp() == asm.Ja
		if ja && in.Symbol() == "" && i+1 < len(insns) && insns[i+1].Symbol() == in.Reference() {
			continue
		}
		out = append(out, in)
	}
	return out
}
