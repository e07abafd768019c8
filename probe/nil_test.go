package probe

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
)

// TestNothingGiven: what is nil by mistake, such as a map's missing entry, is an
// error that says so.
func TestNothingGiven(t *testing.T) {
	plan := &Plan{Programs: []Program{{Name: "p"}}, Filter: &TaskFilter{PIDs: []uint32{1}}}
	spec := &ebpf.CollectionSpec{}
	for name, f := range map[string]func() error{
		"Deploy-plan": func() error { _, err := Deploy("/nonexistent/d", nil, spec, nil); return err },
		"Deploy-spec": func() error { _, err := Deploy("/nonexistent/d", plan, nil, nil); return err },
		"Join":        func() error { _, err := (&Shared{}).Join(nil, nil); return err },
		"ApplyFilter": func() error { return plan.ApplyFilter(nil) },
		"Attach":      func() error { _, err := Attach(nil, Begin{}, nil); return err },
		"Plan.Attach": func() error { _, err := plan.Attach(nil, nil); return err },
		"Resolve":     func() error { _, err := Resolve(nil, []Target{nil}, nil); return err },
		"Requires":    func() error { Requires(nil, []Target{nil}); return nil },
	} {
		if err := f(); name != "Requires" && (err == nil || strings.Contains(err.Error(), "nonexistent: no such")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
