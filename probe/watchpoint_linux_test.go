package probe

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestBreakpointsThatNeverFire: no plan, no attachment of a plan made elsewhere and
// no list of requirements takes such a breakpoint for one.
func TestBreakpointsThatNeverFire(t *testing.T) {
	testenv.Need(t, testenv.Root)
	if !testenv.DeafBreakpoints(t) {
		return
	}
	const cause = "never delivers"
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), cause) {
			t.Errorf("%s: %v", what, err)
		}
	}
	elsewhere := NewEnv(&EnvOptions{Features: probetest.Features()})
	for _, target := range []Target{
		mustParse(t, fmt.Sprintf("watchpoint:0x10000:8:w pid=%d", selfPID())),
		Perf{Event: pmc.Breakpoint(0x10000, 8, pmc.BPWrite), Period: 1, PID: selfPID()},
	} {
		what := fmt.Sprintf("%T", target)
		_, err := Resolve(nil, []Target{target}, nil)
		refused(what+" resolved", err)
		for _, r := range Requires(nil, []Target{target}) {
			if r.Kind == "feature" && (r.Met() || !strings.Contains(r.String(), cause)) {
				t.Errorf("%s requires %s", what, r)
			}
		}
		plan, err := Resolve(elsewhere, []Target{target}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := loadCounter(t, plan, probetest.Counting{Value: -1})
		l, err := plan.Attach(n.progs, nil)
		refused(what+" attached", err)
		l.Close()
	}
}
