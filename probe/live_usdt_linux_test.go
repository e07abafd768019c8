package probe

import (
	"fmt"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
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
