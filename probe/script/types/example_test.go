package types_test

import (
	"fmt"

	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/types"
)

func Example() {
	f, err := syntax.Parse("stdin", []byte(`kprobe:vfs_read { @[comm, 1] = count(); }`), nil)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	p, err := types.Check(f, nil)
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	for _, name := range p.Maps() {
		key, value := p.Map(name)
		fmt.Println(name, key, value)
	}
	// Output: @ (string[16],int8) count_t
}

func ExampleCheck() {
	f, err := syntax.Parse("stdin", []byte(`begin { $x = 1; $x = "one"; }`), nil)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err == nil {
		_, err = types.Check(f, nil)
	}
	fmt.Print(syntax.ErrorText(err))
	// Output:
	// stdin:1:17-27: ERROR: Type mismatch for $x: trying to assign value of type 'string[4]' when variable already has a type 'int8'
	// begin { $x = 1; $x = "one"; }
	//                 ~~~~~~~~~~
}
