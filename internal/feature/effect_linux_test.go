package feature_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
)

// TestBreakpointsThatNeverFire: a breakpoint that was opened and counts nothing is
// none, for those who ask and for tests that need one.
func TestBreakpointsThatNeverFire(t *testing.T) {
	if !testenv.DeafBreakpoints(t) {
		return
	}
	err := feature.Test(feature.Watchpoint)
	var no *feature.UnsupportedError
	if !errors.As(err, &no) || !strings.Contains(no.Hint, "never delivers") {
		t.Errorf("breakpoints that never fire: %v", err)
	}
	if r := feature.Record(feature.Watchpoint)["watchpoint"]; r.State != feature.No || r.Reason != no.Hint {
		t.Errorf("recorded as %v", r)
	}
	t.Run("need", func(t *testing.T) {
		testenv.Need(t, testenv.Watchpoint)
		t.Error("a test that needs them runs")
	})
}
