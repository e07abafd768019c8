package difftest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/interp"
)

// TestNothingGiven: a nil that was passed by mistake is an error, or nothing to do. It was a
// nil dereference.
func TestNothingGiven(t *testing.T) {
	ctx, plan := context.Background(), rawPlan("6.12.0", "amd64")
	counts := action.NewCounter[uint32]("counts", 1)
	events := action.NewEvents[struct{ A uint32 }]("events", 0)
	lines, packets := action.NewLog("lines", 0), action.NewPackets("packets", 0)
	var none *action.Session
	for name, f := range map[string]func() error{
		"Attach":        func() error { _, err := action.Attach(nil, nil); return err },
		"AttachPlan":    func() error { _, err := action.AttachPlan(nil, plan, nil); return err },
		"no plan":       func() error { _, err := action.AttachPlan(action.NewProgram("p"), nil, nil); return err },
		"Load":          func() error { _, err := bpf.Load(nil, plan); return err },
		"Compile":       func() error { _, err := bpf.Compile(nil, plan); return err },
		"Compile plan":  func() error { _, err := bpf.Compile(action.NewProgram("p").Program, nil); return err },
		"NewInterp":     func() error { _, err := interp.New(nil, plan, 0); return err },
		"interp's plan": func() error { _, err := interp.New(action.NewProgram("p").Program, nil, 0); return err },
		"Validate":      func() error { return bpf.Validate((*ir.Program)(nil)) },
		"Open":          func() error { _, err := bpf.Open(nil, nil); return err },
		"a recording":   func() error { _, err := bpf.Open(action.NewProgram("p").Program, nil); return err },
		"Table":         func() error { _, err := counts.Table(nil); return err },
		"of no session": func() error { _, err := counts.Table(none); return err },
		"of no program": func() error { _, err := counts.Table((*bpf.Loaded)(nil)); return err },
		"of nothing":    func() error { _, err := counts.Table((*bpf.Recorded)(nil)); return err },
		"events":        func() error { _, err := events.Open(nil); return err },
		"lines":         func() error { _, err := lines.Open(none); return err },
		"packets":       func() error { _, err := packets.Open(nil); return err },
		"storage":       func() error { _, _, err := action.NewTaskStorage[uint64]("s").OfThread(none, os.Getpid()); return err },
		"Stats":         func() error { _, err := none.Stats(); return err },
		"Read":          func() error { _, err := (*action.EventReader[struct{ A uint32 }])(nil).Read(ctx, nil); return err },
		"reader's":      func() error { _, err := (*action.EventReader[struct{ A uint32 }])(nil).Stats(); return err },
		"On": func() error {
			p := action.NewProgram("p")
			p.On(probe.Begin{}, nil)
			return p.Err()
		},
		"target": func() error {
			p := action.NewProgram("p")
			p.On(nil, func(*action.Ctx) {})
			return p.Err()
		},
	} {
		if err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := errors.Join(none.Detach(), none.Close(), (*action.EventReader[struct{ A uint32 }])(nil).Close()); err != nil {
		t.Error(err)
	}
}

// TestPlanIsResolved: options for resolving a plan that has been were taken and ignored.
func TestPlanIsResolved(t *testing.T) {
	o := &action.Options{Resolve: &probe.Options{DWARF: true}}
	_, err := action.AttachPlan(action.NewProgram("p"), rawPlan("6.12.0", "amd64"), o)
	if err == nil || !strings.Contains(err.Error(), "Options.Resolve is for Attach") {
		t.Errorf("%v", err)
	}
}

// TestCtxIsOver: operations recorded after On's function has returned are errors. They were
// left out silently.
func TestCtxIsOver(t *testing.T) {
	p := action.NewProgram("p")
	var kept *action.Ctx
	counts := action.NewCounter[uint32]("counts", 1)
	p.On(probe.Begin{}, func(c *action.Ctx) { kept = c })
	counts.Inc(kept, kept.CPU())
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "handles_test.go") {
		t.Errorf("%v, want an error with its place", err)
	}
}

// TestPrintfIsChecked: values that do not match the format are errors. They were only noticed
// in printed lines, as "%!s(MISSING)".
func TestPrintfIsChecked(t *testing.T) {
	for format, ok := range map[string]bool{
		"%d %s": true, "%5d%% %v": true, "%%!%x %q": true, "%*s": true, "%[2]s %[1]d": true,
		"%d": false, "%d %s %d": false, "%s %s": false, "%d %d": false, "%d %z": false, "%d %s %": false,
	} {
		p, l := action.NewProgram("p"), action.NewLog("log", 0)
		p.On(probe.Begin{}, func(c *action.Ctx) { l.Printf(c, format, c.PID(), c.Comm()) })
		if err := p.Err(); (err == nil) != ok {
			t.Errorf("%q: %v", format, err)
		}
	}
}

// TestHugeHash: too many entries are an error that says so. The kernel's was "argument list
// too long".
func TestHugeHash(t *testing.T) {
	for n, ok := range map[int]bool{1 << 27: true, 1<<27 + 1: false, 1 << 30: false} {
		p := action.NewProgram("p")
		p.Maps = []*ir.Map{action.NewCounter[uint32]("counts", n).Map()}
		if err := bpf.Validate(p.Program); (err == nil) != ok || !ok && !strings.Contains(err.Error(), "134217728 at most") {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// TestPosWithoutFile: positions without a file have no leading colon.
func TestPosWithoutFile(t *testing.T) {
	for want, p := range map[string]ir.Pos{
		"": {}, "a.go": {File: "a.go"}, "a.go:1": {File: "a.go", Line: 1}, "a.go:1:8": {File: "a.go", Line: 1, Col: 8}, "1:8": {Line: 1, Col: 8}, "1": {Line: 1},
	} {
		if got := p.String(); got != want {
			t.Errorf("%+v is %q, want %q", p, got, want)
		}
	}
}
