package inspect_test

import (
	"fmt"

	"github.com/borescope/borescope/probe/ir/inspect"
)

func ExampleMachineCode() {
	code := []byte{0x55, 0x48, 0x89, 0xe5, 0xc3}
	fmt.Print(inspect.MachineCode("amd64", code, 0x1000, nil))
	// Output:
	//      0:	push %rbp
	//      1:	mov %rsp,%rbp
	//      4:	retq
}
