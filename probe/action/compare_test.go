package action_test

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// TestComparisonsThatCannotBeTrue: a number without a sign was compared with negative ones,
// silently in vain. What a least value of 0 lets through, however, is everything.
func TestComparisonsThatCannotBeTrue(t *testing.T) {
	target := probe.RawTracepoint{Name: "sys_enter"}
	plan := &probe.Plan{Arch: "amd64", Kernel: "6.12.0", Programs: []probe.ProgramPlan{{
		Name: "p0", Type: ebpf.RawTracepoint, AttachTo: "sys_enter",
		Context: probe.ContextRawArgs, Method: probe.MethodRun,
		Sites: []probe.Site{{Target: target, Cookie: probe.MakeCookie(0, 0, 0)}},
		Args:  []probe.Arg{{Name: "arg0", Loc: probe.Location{Kind: probe.LocationContext, Size: 8}}},
	}}}
	for _, c := range []struct {
		cond func(v action.Int) action.Bool
		want string
	}{
		{func(v action.Int) action.Bool { return v.Lt(0) }, ".As(ir.Int64Type()) is signed"},
		{func(v action.Int) action.Bool { return v.Gt(-1) }, "always above -1"},
		{func(v action.Int) action.Bool { return v.Ge(-4095) }, "always at least -4095"},
		{func(v action.Int) action.Bool { return v.Ge(0) }, ""},
		{func(v action.Int) action.Bool { return v.Ge(uint64(1<<64 - 4095)) }, ""},
		{func(v action.Int) action.Bool { return v.Gt(0) }, ""},
		{func(v action.Int) action.Bool { return v.Eq(-1) }, ""},
	} {
		p := action.NewProgram("compare")
		p.On(target, func(x *action.Ctx) { x.ReturnUnless(c.cond(x.Arg(0))) })
		_, err := bpf.Compile(p.Program, plan)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
