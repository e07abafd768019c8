package syntax_test

import (
	"fmt"
	"os"

	"github.com/borescope/borescope/probe/script/syntax"
)

func Example() {
	f, err := syntax.Parse("stdin", []byte(`kprobe:vfs_read /pid == 1/ { @[comm] = count(); }`), nil)
	if err != nil {
		fmt.Print(syntax.ErrorText(err)) // as bpftrace says it, with the line and what is wrong in it
		return
	}
	for n := range syntax.All(f) {
		if c, ok := n.(*syntax.Call); ok {
			fmt.Println(c.At(), c.Name)
		}
	}
	// Output: stdin:1:40-47 count
}

func ExampleText() {
	_, err := syntax.Parse("stdin", []byte("begin { $x = 1 +; }"), nil)
	fmt.Print(syntax.ErrorText(err))
	// Output:
	// stdin:1:17-18: ERROR: syntax: expected expression
	// begin { $x = 1 +; }
	//                 ~
}

func ExampleFormat() {
	f, err := syntax.Parse("stdin", []byte("k:vfs_read /pid==1/ {@x=@x+1 ; /* often */}"), nil)
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	os.Stdout.Write(syntax.Format(f))
	// Output:
	// k:vfs_read
	// /pid == 1/
	// {
	//   @x += 1; // often
	// }
}

func ExampleExpand() {
	f, err := syntax.Parse("stdin", []byte(`
macro add(@m, n) { $key = comm; @m[$key] = sum(n); }
interval:s:1 { add(@bytes, $1); }`), nil)
	if err == nil {
		err = syntax.Expand(f, nil)
	}
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	syntax.SetParams(f, []string{"512"})
	os.Stdout.Write(syntax.Dump(f))
	// Output:
	// interval:s:1
	// {
	//   {
	//     $$add_$key = comm;
	//     @bytes[$$add_$key] = sum(512);
	//   }
	// }
}
