package probe

import (
	"fmt"
	"os"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/usdt/provider"
)

// TestUSDTCounts: both sites of a probe, each with operands of its own.
func TestUSDTCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	plan := mustResolve(t, nil, "usdt:"+targetPath()+":target:twice")
	sites, specs := 0, 0
	for _, p := range plan.Programs {
		sites += len(p.Sites)
		specs += len(p.Specs)
	}
	if sites != 2 || specs != 2 {
		t.Fatalf("want 2 sites with 2 argument sets:\n%s", plan)
	}
	if hasCookies() != (len(plan.Programs) == 1) {
		t.Fatalf("cookies %v:\n%s", hasCookies(), plan)
	}
	n, _ := attachCounter(t, plan, counting{value: -1, sites: hasCookies()})
	w.run()
	if hasCookies() {
		expectTally(t, n.read(t, 0), tally{Count: times})
		expectTally(t, n.read(t, 1), tally{Count: times})
	} else {
		expectTally(t, n.read(t, 0), tally{Count: 2 * times})
	}
}

// TestUSDTSemaphore: a probe that is skipped unless its semaphore is raised, in
// one process and in all, by both kinds of link.
func TestUSDTSemaphore(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	for _, o := range []*Options{{NoMulti: true}, {}} {
		for _, target := range []string{
			"usdt:" + targetPath() + ":guarded",
			fmt.Sprintf("usdt::target:guarded pid=%d", w.pid()),
			"usdt:" + targetPath() + ":target:*",
		} {
			t.Run(fmt.Sprint(target, o.NoMulti), func(t *testing.T) {
				plan := mustResolve(t, o, target)
				n, l := attachCounter(t, plan, counting{value: -1})
				w.run()
				want := uint64(times)
				if len(l.Sites()) > 1 {
					want *= 3
				}
				expectTally(t, n.read(t, 0), tally{Count: want})
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				w.run() // the semaphore is down again
				expectTally(t, n.read(t, 0), tally{Count: want})
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
		fire = append(fire, p.Probe(name, provider.Int64))
		if err := p.Load(); err != nil {
			t.Fatal(err)
		}
		defer p.Unload()
	}
	for i, name := range []string{"one", "two"} {
		plan := mustResolve(t, nil, fmt.Sprintf("usdt::borescopetest:%s pid=%d", name, os.Getpid()))
		n, l := attachCounter(t, plan, counting{value: -1})
		if !fire[i].Enabled() {
			t.Errorf("%s: the semaphore is down", name)
		}
		for range times {
			if err := fire[i].Fire(1); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		expectTally(t, n.read(t, 0), tally{Count: times})
	}
}
