//go:build linux

package action_test

import (
	"os"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/usdt/arg"
	"github.com/borescope/borescope/usdt/provider"
)

// TestUSDTValues reads the arguments of a probe that a live process fires:
// integers of every width and sign, and text in its memory.
func TestUSDTValues(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	pr, err := provider.New("actiontest")
	if err != nil {
		t.Fatal(err)
	}
	fired := pr.Probe("values", arg.Int8, arg.Uint16, arg.Int32, arg.Int64, arg.CString)
	if err := pr.LoadFile(t.TempDir()); err != nil {
		testenv.SkipUnsupported(t, err)
	}
	defer pr.Unload()
	type values struct {
		A    int64
		B    uint64
		C, D int64
		S    [16]byte
	}
	seen := action.NewCounter[values]("seen", 64)
	p := action.NewProgram("usdt")
	p.IncludeSelf = true
	p.On(probe.USDT{Provider: "actiontest", Name: "values", PID: os.Getpid()}, func(c *action.Ctx) {
		seen.Inc(c, action.Key(c.Arg(0), c.Arg(1), c.Arg(2), c.Arg(3), c.Arg(4).UserStr(16)))
	})
	s := attachOrSkip(t, p, nil)
	if !fired.Enabled() {
		t.Fatal("the probe is attached, but its semaphore is down")
	}
	const times = 23
	for i := range times {
		if err := fired.Fire(int8(-i), uint16(65535-i), int32(-100000*i), int64(i)<<40-1, "text"); err != nil {
			t.Fatal(err)
		}
	}
	tab, err := seen.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil || len(snap.Entries) != times {
		t.Fatalf("%d different values, %v; want %d: %+v", len(snap.Entries), err, times, snap)
	}
	for _, e := range snap.Entries {
		i := -e.Key.A
		want := values{-i, uint64(65535 - i), -100000 * i, i<<40 - 1, [16]byte{'t', 'e', 'x', 't'}}
		if e.Key != want || e.Value != 1 || i < 0 || i >= times {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
}
