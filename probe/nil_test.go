package probe

import (
	"testing"
)

// TestNothingGiven: what is nil by mistake, such as a map's missing entry, is an
// error that says so.
func TestNothingGiven(t *testing.T) {
	plan := &Plan{Programs: []ProgramPlan{{Name: "p"}}, Filter: &TaskFilter{PIDs: []uint32{1}}}
	for name, f := range map[string]func() error{
		"ApplyFilter": func() error { return plan.ApplyFilter(nil) },
		"Attach":      func() error { _, err := Attach(nil, Begin{}, nil); return err },
		"Plan.Attach": func() error { _, err := plan.Attach(nil, nil); return err },
		"Resolve":     func() error { _, err := Resolve(nil, []Target{nil}, nil); return err },
		"Requires":    func() error { Requires(nil, []Target{nil}); return nil },
	} {
		if err := f(); name != "Requires" && err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
