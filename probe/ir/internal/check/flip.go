package check

import (
	"fmt"

	"github.com/borescope/borescope/probe/ir"
)

// flippedMap refuses what a program cannot do with a map that its reader takes
// away from it.
func flippedMap(m *ir.Map) error {
	if m != nil && m.Flip {
		return fmt.Errorf("map %s flips: a program can only add to it", m.Name)
	}
	return nil
}
