package attach_test

import (
	"fmt"

	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
)

func Example() {
	f, err := syntax.Parse("stdin", []byte(`kprobe:vfs_read+4, interval:5ms { }`), nil)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err == nil {
		err = attach.Check(f, nil)
	}
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	for n := range syntax.All(f) {
		if a, ok := n.(*syntax.AttachPoint); ok {
			fmt.Println(a.Provider, a.Target, a.Func, a.Offset, a.Freq)
		}
	}
	// Output:
	// kprobe  vfs_read 4 0
	// interval us  0 5000
}

func ExampleCheck() {
	f, err := syntax.Parse("stdin", []byte(`profile:min:1 { }`), nil)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err == nil {
		err = attach.Check(f, nil)
	}
	fmt.Print(syntax.ErrorText(err))
	// Output:
	// stdin:1:1-14: ERROR: min is not an accepted unit of time
	// profile:min:1 { }
	// ~~~~~~~~~~~~~
}
