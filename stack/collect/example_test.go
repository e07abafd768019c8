package collect_test

import (
	"fmt"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
)

// Attach needs privileges, and says so: a program can count on one line that
// names what is missing.
func ExampleAttach() {
	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: 99}}, &collect.Options{NoKernel: true, NoUser: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	// Output:
	// collect: neither kernel nor user stacks are asked for
}
