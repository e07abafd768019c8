package stack_test

import (
	"debug/elf"
	"fmt"
	"os"

	"github.com/borescope/borescope/stack"
)

func ExampleFolded() {
	var f stack.Folded
	f.Add([]string{"sh", "main", "read"}, 3)
	f.Add([]string{"sh", "main", "write"}, 1)
	f.Add([]string{"sh", "main", "read"}, 2)
	f.WriteTo(os.Stdout)
	fmt.Println("total", f.Total())
	// Output:
	// sh;main;read 5
	// sh;main;write 1
	// total 6
}

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
		fmt.Printf("%#x %v\n", f.PC, f.How)
	}
	fmt.Println(end)
	// Output:
	// 0x401000 regs
	// 0x401234 fp
	// 0x405678 fp
	// bottom
}

func ExampleProfile_Top() {
	main := &stack.NamedFrame{Functions: []stack.Function{{Name: "main"}}}
	read := &stack.NamedFrame{Functions: []stack.Function{{Name: "read"}}}
	p := stack.Profile{Samples: []stack.Sample{
		{Comm: "cat", Frames: []*stack.NamedFrame{read, main}, Values: []int64{3}},
		{Comm: "cat", Frames: []*stack.NamedFrame{main}, Values: []int64{1}},
	}}
	for _, fn := range p.Top(nil).Functions {
		fmt.Println(fn.Name, fn.Self, fn.Total, fn.Callers)
	}
	// Output:
	// read 3 3 [main]
	// main 1 4 []
}
