package python_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/borescope/borescope/stack/python"
)

// Frames returns the Python functions on the stack of a thread.
func Example() {
	pid := os.Getpid()
	p, err := python.Open(pid)
	if errors.Is(err, python.ErrNotFound) {
		fmt.Println("this is no CPython process")
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	frames, err := p.Frames(nil, pid)
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range frames {
		if code, err := p.Code(f.PC); err == nil {
			fmt.Printf("%s %s:%d\n", code.Name, code.File, f.Line)
		}
	}
	// Output:
	// this is no CPython process
}
