package stack_test

import (
	"debug/elf"
	"fmt"

	"github.com/borescope/borescope/stack"
)

func ExampleFPWalker() {
	// Two frame records: where the caller's is, and the return address.
	memory := stack.MemoryRange{Addr: 0x7000, Data: []byte{
		0x10, 0x70, 0, 0, 0, 0, 0, 0, 0x34, 0x12, 0x40, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0x78, 0x56, 0x40, 0, 0, 0, 0, 0,
	}}
	regs := stack.Regs{Machine: elf.EM_X86_64}
	regs.SetPC(0x401000)
	regs.SetSP(0x7000)
	regs.SetFP(0x7000)

	var w stack.FPWalker
	var frames [stack.MaxFrames]stack.Frame
	n, end := w.Walk(frames[:], &regs, memory)
	for _, f := range frames[:n] {
		fmt.Printf("%#x %v\n", f.PC, f.Source)
	}
	fmt.Println(end)
	// Output:
	// 0x401000 regs
	// 0x401234 fp
	// 0x405678 fp
	// bottom
}
