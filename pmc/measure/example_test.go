package measure_test

import (
	"fmt"

	"github.com/borescope/borescope/pmc/measure"
)

// Func counts the instructions, cycles and branches of a function, or the events that this
// machine has instead.
func ExampleFunc() {
	m, err := measure.Func(func() {
		for i := range 1000 {
			_ = i * i
		}
	})
	if err != nil {
		fmt.Println(err) // names the missing privilege and the remedy
		return
	}
	for _, v := range m.Counts.Totals() {
		fmt.Println(v.Event, v.Count, v.Confidence)
	}
}
