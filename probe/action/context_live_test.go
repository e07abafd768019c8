//go:build linux

package action_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// TestAttachCancelled: a context that ends ends attaching, wherever it is, and leaves nothing
// in the kernel. A service that was told to end waited until thousands of sites were attached.
func TestAttachCancelled(t *testing.T) {
	testenv.Need(t, testenv.Root)
	n := action.NewCounter[uint32]("n", 64)
	p := action.NewProgram("cancelled")
	p.IncludeSelf = true
	names := strings.Fields("sys_enter sys_exit sched_switch sched_wakeup sched_waking sched_migrate_task " +
		"sched_process_exec sched_process_fork sched_process_exit task_newtask task_rename signal_generate signal_deliver")
	for i, name := range names {
		p.On(probe.RawTracepoint{Name: name}, func(c *action.Ctx) { n.Inc(c, i) })
	}
	plan, err := bpf.Resolve(thisMachine(), p.Program, nil)
	if err != nil {
		t.Fatal(err)
	}
	attach := func(o *action.Options) (*action.Session, error) { return action.Attach(p, o) }
	planned := func(o *action.Options) (*action.Session, error) { return action.AttachPlan(p, plan, o) }
	warn := &probe.AttachOptions{Missing: probe.MissingWarn}
	for name, c := range map[string]struct {
		attach   func(*action.Options) (*action.Session, error)
		to       *probe.AttachOptions
		says     string
		when     func(testenv.Objects) bool
		programs int // loaded at that time, at most
	}{
		"resolving": {attach, nil, "resolve rawtracepoint", func(testenv.Objects) bool { return true }, 0},
		"compiling": {planned, nil, "compile cancelled", func(testenv.Objects) bool { return true }, 0},
		"maps":      {planned, nil, "load cancelled", func(o testenv.Objects) bool { return len(o.Maps) > 0 }, 0},
		"loading":   {attach, nil, "load cancelled", func(o testenv.Objects) bool { return len(o.Programs) > 0 }, len(names) - 1},
		"attaching": {attach, nil, "attach rawtracepoint", func(o testenv.Objects) bool { return len(o.Links) == 5 }, len(names)},
		"attaching a plan": {planned, nil, "attach rawtracepoint", func(o testenv.Objects) bool {
			return len(o.Links) == 5
		}, len(names)},
		"with missing sites": {attach, warn, "attach rawtracepoint", func(o testenv.Objects) bool {
			return len(o.Links) == 5
		}, len(names)},
		"all attached": {attach, nil, "attach rawtracepoint", func(o testenv.Objects) bool {
			return len(o.Links) == len(names)
		}, len(names)},
	} {
		t.Run(name, func(t *testing.T) {
			before := testenv.ObjectsOf(0)
			ctx := testenv.EndWhen(t, c.when)
			s, err := c.attach(&action.Options{Env: thisMachine(), Attach: c.to, Context: ctx})
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it holds %+v: %v", ctx.Held, err)
			}
			if len(ctx.Held.Programs) > c.programs {
				t.Errorf("it goes on until %d programs are loaded", len(ctx.Held.Programs))
			}
			ctx.Held.WaitGone(t)
			if left := testenv.ObjectsOf(0).Without(before); left.Len() > 0 {
				t.Errorf("left open: %+v", left)
			}
		})
	}
	// A context that ends later does not end the session.
	ctx, cancel := context.WithCancel(t.Context())
	s, err := action.Attach(p, &action.Options{Env: thisMachine(), Context: ctx})
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if sites := len(s.Link().Sites()); sites != len(names) {
		t.Errorf("%d sites, want %d", sites, len(names))
	}
	marks(23)
	if got := total(t, s, n); got < 23 {
		t.Errorf("the programs, loaded in steps, count %d events", got)
	}
}
