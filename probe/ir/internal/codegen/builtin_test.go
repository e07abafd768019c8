package codegen

import (
	"testing"

	"github.com/borescope/borescope/probe/ir/internal/builtin"
)

func TestGeneratedAreBuiltins(t *testing.T) {
	for name := range generated {
		if builtin.Named(name).Name == "" {
			t.Errorf("there is no builtin %q", name)
		}
	}
}

// TestBuiltinsLicence: a builtin whose helper only GPL-compatible programs may call says so.
func TestBuiltinsLicence(t *testing.T) {
	for _, b := range builtin.Rows() {
		if gplHelpers[b.Helper] && !b.GPL {
			t.Errorf("%s calls %v", b.Name, b.Helper)
		}
	}
}
