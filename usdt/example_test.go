package usdt_test

import (
	"debug/elf"
	"fmt"

	"github.com/borescope/borescope/usdt"
)

func Example() {
	// What gcc wrote for a probe with four arguments.
	args, err := usdt.ParseArgs(elf.EM_X86_64, "8@%rdi -4@-20(%rbp) 8@counter(%rip) 8f@%xmm0")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range args {
		fmt.Println(a, a.Size, a.Signed, a.Operand, a.Reason)
	}
	// Output:
	// 8@%rdi 8 false r5 readable
	// -4@-20(%rbp) 4 true *(r6-20) readable
	// 8@counter(%rip) 8 false *(counter) symbol address is not known
	// 8f@%xmm0 8 false v17 value is in a vector register
}

func ExampleArg_Eval() {
	args, _ := usdt.ParseArgs(elf.EM_X86_64, "-4@%edi 1@%ah")
	registers := regs{5: 0xfffffff6, 0: 0x4100}
	for _, a := range args {
		v, err := a.Eval(registers, nil, nil)
		fmt.Println(v, err)
	}
	// Output:
	// -10 <nil>
	// 65 <nil>
}
