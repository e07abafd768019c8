package probe

import (
	"fmt"
	"os"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/usdt/arg"
	"github.com/borescope/borescope/usdt/provider"
)

// TestUSDTCounts: both sites of a probe, each with operands of its own.
func TestUSDTCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	plan := mustResolve(t, nil, "usdt:"+probetest.TargetPath()+":target:twice")
	sites, specs := 0, 0
	for _, p := range plan.Programs {
		sites += len(p.Sites)
		specs += len(p.Specs)
	}
	if sites != 2 || specs != 2 {
		t.Fatalf("want 2 sites with 2 argument sets:\n%s", plan)
	}
	if probetest.HasCookies() != (len(plan.Programs) == 1) {
		t.Fatalf("cookies %v:\n%s", probetest.HasCookies(), plan)
	}
	n, _ := attachCounter(t, plan, probetest.Counting{Value: -1, Sites: probetest.HasCookies()})
	w.Run()
	if probetest.HasCookies() {
		probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
		probetest.ExpectTally(t, n.read(t, 1), probetest.Tally{Count: probetest.Times})
	} else {
		probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2 * probetest.Times})
	}
}

// TestUSDTSemaphore: a probe that is skipped unless its semaphore is raised, in
// one process and in all, by both kinds of link.
func TestUSDTSemaphore(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	for _, o := range []*Options{{NoMulti: true}, {}} {
		for _, target := range []string{
			"usdt:" + probetest.TargetPath() + ":guarded",
			fmt.Sprintf("usdt::target:guarded pid=%d", w.PID()),
			"usdt:" + probetest.TargetPath() + ":target:*",
		} {
			t.Run(fmt.Sprint(target, o.NoMulti), func(t *testing.T) {
				plan := mustResolve(t, o, target)
				n, l := attachCounter(t, plan, probetest.Counting{Value: -1})
				w.Run()
				want := uint64(probetest.Times)
				if len(l.Sites()) > 1 {
					want *= 3
				}
				probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: want})
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				w.Run() // the semaphore is down again
				probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: want})
			})
		}
	}
}

// TestUSDTInMemory: probes that a process has defined in memory are found by its
// pid alone; two providers' files have one name. Before, the first file without
// a path made the target fail: "/proc/PID/root/memfd:…: no such file".
func TestUSDTInMemory(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	var fire []*provider.Probe
	for _, name := range []string{"one", "two"} {
		p, err := provider.New("borescopetest")
		if err != nil {
			t.Fatal(err)
		}
		fire = append(fire, p.Probe(name, arg.Int64))
		if err := p.Load(); err != nil {
			t.Fatal(err)
		}
		defer p.Unload()
	}
	for i, name := range []string{"one", "two"} {
		plan := mustResolve(t, nil, fmt.Sprintf("usdt::borescopetest:%s pid=%d", name, os.Getpid()))
		n, l := attachCounter(t, plan, probetest.Counting{Value: -1})
		if !fire[i].Enabled() {
			t.Errorf("%s: the semaphore is down", name)
		}
		for range probetest.Times {
			if err := fire[i].Fire(1); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
	}
}
