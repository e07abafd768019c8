package deploy

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
)

// TestNothingGiven: what is nil by mistake, such as a map's missing entry, is an
// error that says so.
func TestNothingGiven(t *testing.T) {
	plan := &probe.Plan{Programs: []probe.ProgramPlan{{Name: "p"}}}
	for name, f := range map[string]func() error{
		"plan":       func() error { _, err := Deploy("/nonexistent/d", nil, &ebpf.CollectionSpec{}, nil); return err },
		"collection": func() error { _, err := Deploy("/nonexistent/d", plan, nil, nil); return err },
		"share":      func() error { _, err := Share(nil, nil); return err },
		"join":       func() error { _, err := (&Mux{}).Join(nil, nil); return err },
	} {
		if err := f(); err == nil || strings.Contains(err.Error(), "nonexistent: no such") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
