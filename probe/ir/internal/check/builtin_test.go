package check

import (
	"testing"

	"github.com/borescope/borescope/probe/ir/internal/builtin"
)

func TestLoweringsAreOfBuiltins(t *testing.T) {
	for name := range lowerings {
		if builtin.Named(name).Name == "" {
			t.Errorf("there is no builtin %q", name)
		}
	}
}
