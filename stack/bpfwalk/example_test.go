package bpfwalk_test

import (
	"fmt"

	"github.com/borescope/borescope/stack/bpfwalk"
)

// Maps returns the maps that a program with the walker needs; the program calls WalkFunc.
func Example() {
	for _, m := range bpfwalk.Maps(nil) {
		fmt.Println(m.Name)
	}
	w := bpfwalk.Walker{MaxFrames: 64}
	fmt.Println(bpfwalk.WalkFunc, len(w.Instructions()) > 500, w.StateSize()-w.PCsOffset())
	// Output:
	// stack_procs
	// stack_maps
	// stack_rows
	// stack_rules
	// stack_hints
	// stack_walk true 512
}
