package measure_test

import (
	"fmt"

	"github.com/borescope/borescope/pmc/measure"
)

// What a function costs, by this machine's own counters.
func ExampleFunc() {
	m, err := measure.Func(func() {
		for i := range 1000 {
			_ = i * i
		}
	})
	if err != nil {
		fmt.Println(err) // who may not count, and what to do about it
		return
	}
	for _, v := range m.Counts.Totals() {
		fmt.Println(v.Event, v.Count, v.Confidence)
	}
}
