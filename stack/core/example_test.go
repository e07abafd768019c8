package core_test

import (
	"fmt"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/core"
)

// This program walks the stacks of all threads of a process that crashed.
func Example() {
	c, err := core.Open("testdata/no-such-core")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	mods, err := c.Modules(nil)
	if err != nil {
		fmt.Println(err) // of files that are not there: the modules can be used
	}
	w := stack.CFIWalker{Modules: mods}
	var frames [stack.MaxFrames]stack.Frame
	for i := range c.Threads {
		t := &c.Threads[i]
		n, end := w.Walk(frames[:], &t.Regs, c)
		fmt.Println(t.TID, n, end)
	}
	// Output:
	// open testdata/no-such-core: no such file or directory
}
