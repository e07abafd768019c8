package kernel

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// Turn makes a program do nothing and return idle on CPUs where it is not its turn. turns is the
// descriptor of an array whose only value has a byte for each of cpus possible CPUs: the number of the
// program whose turn it is there. A thread that runs on the CPU (OnEachCPU) stores it: all programs of an
// event find the same number then, unless the kernel preempts the event's thread between two of them.
func Turn(ins asm.Instructions, turns, cpus int, own uint8, idle int32) (asm.Instructions, error) {
	if len(ins) == 0 {
		return nil, fmt.Errorf("no instructions")
	}
	const others, mine = "turn.others", "turn.mine"
	out := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetSmpProcessorId.Call(),
		asm.JGE.Imm(asm.R0, int32(cpus), others), // never, but the verifier does not know it
		asm.LoadMapValue(asm.R1, turns, 0),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R0, asm.R1, 0, asm.Byte),
		asm.JEq.Imm(asm.R0, int32(own), mine),
		asm.Mov.Imm(asm.R0, idle).WithSymbol(others),
		asm.Return(),
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(mine),
	}
	out[0].Metadata = ins[0].Metadata // it is now the function's first instruction
	first, err := bare(ins[0])
	if err != nil {
		return nil, err
	}
	return append(append(out, first), ins[1:]...), nil
}
