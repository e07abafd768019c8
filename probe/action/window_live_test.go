//go:build linux

package action_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// windowed adds up windows of one kind while events are counted.
type windowed struct {
	name  string
	next  func() (n uint64, begin, end time.Time, err error)
	last  func() uint64
	sum   uint64
	until time.Time
}

func windowsOf[V any](t *testing.T, name string, w *mapx.Windows[uint32, V], err error, weigh func(V) uint64) *windowed {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	all := func(s mapx.Snapshot[uint32, V]) (n uint64) {
		for _, e := range s.Entries {
			n += weigh(e.Value)
		}
		return n
	}
	return &windowed{name: name, next: func() (uint64, time.Time, time.Time, error) {
		win, err := w.Next()
		return all(win.Snapshot), win.Begin, win.End, err
	}, last: func() uint64 { return all(w.Last(0).Snapshot) }}
}

// TestWindows: windows of aggregations of all kinds follow each other without a gap, while threads
// on all CPUs are counted, and every event is in exactly one of them.
func TestWindows(t *testing.T) {
	testenv.Need(t, testenv.Root)
	ran := action.NewCount("ran")
	count, sum := action.NewCounter[uint32]("count", 64), action.NewSum[uint32]("sum", 64)
	most, least := action.NewMax[uint32]("most", 64), action.NewMin[uint32]("least", 64)
	stats, lat := action.NewStats[uint32]("stats", 64), action.NewHist[uint32]("lat", 256)
	for _, m := range []interface{ Flip() }{count, sum, most, least, stats, lat} {
		m.Flip()
	}
	begun := time.Now()
	s := attachOrSkip(t, marked("windows", func(c *action.Ctx) {
		tid := c.TID().And(7)
		ran.Inc(c)
		count.Inc(c, tid)
		sum.Observe(c, 3, tid)
		most.Observe(c, tid, tid)
		least.Observe(c, tid, tid)
		stats.Observe(c, 5, tid)
		lat.Observe(c, tid, tid)
	}), nil)
	const keep = time.Hour
	counts, err := count.Windows(s, keep)
	all := []*windowed{windowsOf(t, "count", counts, err, func(n uint64) uint64 { return n })}
	sums, err := sum.Windows(s, keep)
	all = append(all, windowsOf(t, "sum", sums, err, func(n int64) uint64 { return uint64(n) / 3 }))
	summaries, err := stats.Windows(s, keep)
	all = append(all, windowsOf(t, "stats", summaries, err, func(st bpf.Stat) uint64 {
		if st.Min != 5 || st.Max != 5 || st.Sum != 5*int64(st.Count) {
			t.Errorf("%+v", st)
		}
		return st.Count
	}))
	hists, err := lat.Windows(s, keep)
	all = append(all, windowsOf(t, "lat", hists, err, func(b []hist.Bucket) (n uint64) {
		for _, b := range b {
			n += b.Count
		}
		return n
	}))
	mosts, err := most.Windows(s, keep)
	if err != nil {
		t.Fatal(err)
	}
	leasts, err := least.Windows(s, keep)
	if err != nil {
		t.Fatal(err)
	}

	const threads, each = 4, 3000
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range threads {
		wg.Go(func() { marks(each) })
	}
	go func() { wg.Wait(); close(done) }()
	for going := true; going; {
		select {
		case <-done:
			going = false // once more, for the rest
		default:
		}
		for _, w := range all {
			n, begin, end, err := w.next()
			if err != nil || w.until.IsZero() && begin.Before(begun) || !w.until.IsZero() && !begin.Equal(w.until) || !end.After(begin) {
				t.Fatalf("%s: a window from %v to %v behind one to %v: %v", w.name, begin, end, w.until, err)
			}
			w.sum, w.until = w.sum+n, end
		}
	}
	fired := total(t, s, ran)
	for _, w := range all {
		if last := w.last(); w.sum != fired || last != fired {
			t.Errorf("%s: %d in all windows, %d in the last, of %d", w.name, w.sum, last, fired)
		}
	}
	for _, w := range []*mapx.Windows[uint32, int64]{mosts, leasts} {
		for range 2 {
			if _, err := w.Next(); err != nil {
				t.Fatal(err)
			}
			marks(1)
		}
		for _, e := range w.Last(0).Entries {
			if e.Value != int64(e.Key) {
				t.Errorf("an extreme of %d in two windows: %d", e.Key, e.Value)
			}
		}
	}
	// Without Flip what is counted while it is read would be lost.
	if _, err := ran.Windows(s, keep); err == nil || !strings.Contains(err.Error(), "call Flip before Attach") {
		t.Error(err)
	}
}
