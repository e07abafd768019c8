//go:build linux

package action_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// cleared adds up what ReadAndClear returns.
type cleared struct {
	t     *testing.T
	reads []func()
}

// clearedTable adds a table whose values weigh gives as numbers.
func clearedTable[K comparable, V any](c *cleared, tab mapx.Table[K, V], err error, weigh func(V) uint64) *uint64 {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	sum := new(uint64)
	c.reads = append(c.reads, func() {
		s, err := tab.ReadAndClear()
		if err != nil {
			c.t.Error(err)
		}
		for _, e := range s.Entries {
			*sum += weigh(e.Value)
		}
	})
	return sum
}

// TestFlipLosesNothing clears aggregations of all kinds again and again while
// threads on all CPUs add to them: every event is in exactly one reading.
func TestFlipLosesNothing(t *testing.T) {
	testenv.Need(t, testenv.Root)
	ran := action.NewCount("ran") // does not flip: firings, but for those the kernel leaves out when one preempts another
	count := action.NewCounter[action.Comm]("count", 64)
	whole := action.NewCount("total")
	sum := action.NewSum[uint32]("sum", 64)
	most := action.NewMax[uint32]("most", 64)
	stats := action.NewStats[uint32]("stats", 64)
	avg := action.NewAvg[action.None]("avg", 1)
	lat := action.NewHist[action.None]("lat", 1)
	by := action.NewHist[uint32]("by", 256)
	lin := action.NewLinear[action.None]("lin", 1, 0, 100, 10)
	stacks := action.NewCounter[[64]uint64]("stacks", 1024)
	for _, m := range []interface{ Flip() }{count, whole, sum, most, stats, avg, lat, by, lin, stacks} {
		m.Flip()
	}
	s := attachOrSkip(t, marked("flip", func(c *action.Ctx) {
		ran.Inc(c)
		tid := c.TID().And(7)
		count.Inc(c, c.Comm())
		whole.Inc(c)
		sum.Observe(c, 3, tid)
		most.Observe(c, tid, tid)
		stats.Observe(c, 5, tid)
		avg.Observe(c, 7)
		lat.Observe(c, tid)
		by.Observe(c, tid, tid)
		lin.Observe(c, tid)
		stacks.Inc(c, c.Kstack(64))
	}), nil)

	c := &cleared{t: t}
	self := func(n uint64) uint64 { return n }
	buckets := func(b []hist.Bucket) (n uint64) {
		for _, b := range b {
			n += b.Count
		}
		return n
	}
	want := map[*uint64]uint64{}
	countTab, err := count.Table(s)
	want[clearedTable(c, countTab, err, self)] = 1
	totalTab, err := whole.Table(s)
	want[clearedTable(c, totalTab, err, self)] = 1
	sumTab, err := sum.Table(s)
	want[clearedTable(c, sumTab, err, func(n int64) uint64 { return uint64(n) })] = 3
	mostTab, err := most.Table(s)
	clearedTable(c, mostTab, err, func(n int64) uint64 {
		if n < 0 || n > 7 {
			t.Errorf("a maximum of %d", n)
		}
		return 0
	})
	weigh := func(st bpf.Stat) uint64 { return st.Count + uint64(st.Sum) }
	statsTab, err := stats.Table(s)
	want[clearedTable(c, statsTab, err, weigh)] = 1 + 5
	avgTab, err := avg.Table(s)
	want[clearedTable(c, avgTab, err, weigh)] = 1 + 7
	latTab, err := lat.Table(s)
	want[clearedTable(c, latTab, err, buckets)] = 1
	byTab, err := by.Table(s)
	want[clearedTable(c, byTab, err, buckets)] = 1
	linTab, err := lin.Table(s)
	want[clearedTable(c, linTab, err, buckets)] = 1
	stackTab, err := stacks.Table(s)
	want[clearedTable(c, stackTab, err, self)] = 1

	const threads, each = 4, 4000
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range threads {
		wg.Go(func() { marks(each) })
	}
	go func() { wg.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false // once more, for the rest
		default:
		}
		for _, read := range c.reads {
			read()
		}
	}
	fired := total(t, s, ran)
	if fired == 0 || fired > threads*each {
		t.Errorf("%d firings at %d marks", fired, threads*each)
	}
	for sum, weight := range want {
		if *sum != fired*weight {
			t.Errorf("%d in all readings, want %d", *sum, fired*weight)
		}
	}
	again, err := totalTab.Snapshot()
	if err != nil || len(again.Entries) != 0 {
		t.Errorf("after ReadAndClear: %+v, %v", again.Entries, err)
	}
	marks(23)
	if again, err = totalTab.Snapshot(); err != nil || len(again.Entries) != 1 || again.Entries[0].Value != 23 {
		t.Errorf("after 23 more: %+v, %v", again.Entries, err)
	}
	other, err := whole.Table(s) // knows which of the two is written
	if err != nil {
		t.Fatal(err)
	}
	if again, err = other.ReadAndClear(); err != nil || len(again.Entries) != 1 || again.Entries[0].Value != 23 {
		t.Errorf("through another handle: %+v, %v", again.Entries, err)
	}
	if st, err := s.Stats(); err != nil || st.Full != 0 || st.Maps[1].Capacity != 64 {
		t.Errorf("stats %+v, %v", st, err)
	}
}

// BenchmarkFlip is what the other lookup costs: a count by name in a loop of
// system calls, without a program, with a plain map and with one that flips.
func BenchmarkFlip(b *testing.B) {
	testenv.Need(b, testenv.Root)
	for _, kind := range []string{"untraced", "plain", "flip"} {
		b.Run(kind, func(b *testing.B) {
			if kind != "untraced" {
				n := action.NewCounter[action.Comm]("n", 64)
				if kind == "flip" {
					n.Flip()
				}
				s, err := action.Attach(marked(kind, func(c *action.Ctx) { n.Inc(c, c.Comm()) }), nil)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
			}
			b.ResetTimer()
			marks(b.N)
		})
	}
}

// TestFlipRefused: a program only adds to what its reader takes away from it.
func TestFlipRefused(t *testing.T) {
	n := action.NewCounter[uint32]("n", 64)
	n.Flip()
	plan := rawPlan2()
	plan.Kernel = "6.12.0" // older ones cannot read other CPUs' values at all
	p := marked("refused", func(c *action.Ctx) { n.Value(c, 1) })
	if _, err := bpf.Compile(p.Program, plan); err == nil || !strings.Contains(err.Error(), "map n flips") {
		t.Errorf("reading: %v", err)
	}
	p = marked("refused", func(c *action.Ctx) {
		c.Do(&ir.Stmt{Op: ir.StmtDelete, Map: n.Map(), Key: ir.NewConst(1)})
	})
	if _, err := bpf.Compile(p.Program, rawPlan2()); err == nil || !strings.Contains(err.Error(), "map n flips") {
		t.Errorf("deleting: %v", err)
	}
	h := action.NewHash[uint32, uint32]("h", 1)
	h.Map().Flip = true
	p = marked("refused", func(c *action.Ctx) { h.Set(c, 1, 1) })
	if _, err := bpf.Compile(p.Program, rawPlan2()); err == nil || !strings.Contains(err.Error(), "only aggregations") {
		t.Errorf("a hash: %v", err)
	}
}
