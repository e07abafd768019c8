package probe

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/internal/usercode"
)

// TestGoidVersions: versions that are not known had the offset of Go 1.25, and
// release candidates of 1.24 too.
func TestGoidVersions(t *testing.T) {
	for version, want := range map[string]int64{
		"go1.17": 152, "go1.22.4": 152, "go1.23": 160, "go1.24rc1": 160, "go1.24.3": 160, "go1.24.3-corp.1": 160,
		"go1.25": 152, "go1.25.1 X:nodwarf5": 152, "go1.26.8": 152,
		"": 0, "go1.16.15": 0, "go1.27": 0, "go1.27rc1": 0, "go2.0": 0, "devel go1.25-36b81acfa1 Mon": 0, "unknown": 0,
	} {
		if got := usercode.GoidOffset(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
	p := Plan{Programs: []ProgramPlan{{Go: &GoTarget{Version: "go1.99"}}}}
	if want := "  of Go \"go1.99\": where goroutines have their ids is not known\n"; !strings.Contains(p.String(), want) {
		t.Errorf("the plan does not say that it doesn't know:\n%s", &p)
	}
}
