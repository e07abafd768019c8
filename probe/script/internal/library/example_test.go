package library_test

import (
	"fmt"

	"github.com/borescope/borescope/probe/script/internal/library"
	"github.com/borescope/borescope/probe/script/syntax"
)

func Example() {
	f, err := syntax.Parse("stdin", []byte(`begin { print(strcontains(comm, "sh")); }`), nil)
	if err == nil {
		err = syntax.Expand(f, &syntax.ExpandOptions{Library: library.Macros()})
	}
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	fmt.Printf("%s", syntax.Dump(f))
	// Output:
	// begin
	// {
	//   print({ strstr(comm, "sh") != (-1) });
	// }
}
