//go:build amd64 || arm64

package spin_test

import (
	"fmt"

	"github.com/borescope/borescope/pmc/internal/spin"
)

func ExampleLoop() {
	spin.Loop(1000)
	fmt.Println(1000*spin.PerIteration, "instructions")
	// Output: 13000 instructions
}
