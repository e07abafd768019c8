package probe

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// A context that ends while sites are attached one by one, or by halves, ends that, also where
// missing sites are left out: those not tried are not missing. Nothing is left.
func TestAttachContext(t *testing.T) {
	testenv.Need(t, testenv.Root)
	plan := mustResolve(t, nil, "rawtracepoint:sys_enter", "rawtracepoint:sys_exit",
		"rawtracepoint:sched_switch", "rawtracepoint:sched_wakeup")
	n := loadCounter(t, plan, probetest.Counting{})
	for _, policy := range []MissingPolicy{MissingError, MissingWarn, MissingIgnore} {
		for _, links := range []int{0, 2, 4} {
			before := testenv.ObjectsOf(0)
			ctx := testenv.EndWhen(t, func(o testenv.Objects) bool { return len(o.Links) >= links })
			l, err := plan.Attach(n.progs, &AttachOptions{Context: ctx, Missing: policy})
			if err == nil {
				l.Close()
			}
			if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "attach rawtracepoint:") {
				t.Errorf("%v, after %d links: %v", policy, links, err)
			}
			if len(ctx.Held.Links) != links {
				t.Errorf("it ended with %d links, want %d", len(ctx.Held.Links), links)
			}
			ctx.Held.WaitGone(t)
			if left := testenv.ObjectsOf(0).Without(before); left.Len() > 0 {
				t.Errorf("left open: %+v", left)
			}
		}
	}
	_, err := Attach(n.progs[plan.Programs[0].Name], RawTracepoint{Name: "sys_enter"},
		&Options{Context: testenv.EndWhen(t, func(o testenv.Objects) bool { return len(o.Links) == 1 })})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Attach of a program: %v", err)
	}
}
