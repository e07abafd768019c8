package kernel

import "github.com/cilium/ebpf/asm"

// CountInstructions are a program of any type that adds one to slot i of the
// per-CPU array of u64 behind the descriptor.
func CountInstructions(mapFD, i int) asm.Instructions {
	return asm.Instructions{
		asm.StoreImm(asm.RFP, -4, int64(i), asm.Word),
		asm.LoadMapPtr(asm.R1, mapFD),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		// Another program may interrupt this one on the same CPU.
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	}
}
