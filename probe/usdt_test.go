package probe

import (
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/usdt"
)

// TestUSDTSpecs: an argument's text is not all there is to it; what a symbol in it
// stands for differs from file to file.
func TestUSDTSpecs(t *testing.T) {
	at := func(disp int64) []usdt.Arg {
		return []usdt.Arg{{Text: "8@counter(%rip)", Operand: usdt.Operand{
			Kind: usdt.KindMem, Addr: usdt.Addr{PCRel: true, Disp: disp, Symbol: "counter", Resolved: true},
		}}}
	}
	sites := []usdtSite{{Site: usdt.Site{Args: at(16)}}, {Site: usdt.Site{Args: at(32)}}, {Site: usdt.Site{Args: at(16)}}}
	for _, without := range []feature.Feature{0, feature.AttachCookie} {
		var o EnvOptions
		if o.Features = probetest.Features(); without != 0 {
			o.Features = probetest.Features(without)
		}
		r := &resolver{ctx: t.Context(), env: NewEnv(&o), o: &Options{}, plan: &Plan{}}
		specs, places := 0, 0
		for _, p := range (USDT{}).programs(r, sites) {
			specs, places = specs+len(p.Specs), places+len(p.Sites)
		}
		if specs != 2 || places != 3 {
			t.Errorf("%d argument sets at %d places, want 2 at 3", specs, places)
		}
	}
}
